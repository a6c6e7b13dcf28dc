import type { FamilySettings, ServicePortKey } from "../../core/model/mod.ts";
import { type Contribution, contributionOf, NOTHING } from "./contribution.ts";
import type { Desired } from "./desired.ts";
import type { Change } from "./plan.ts";
import type { Applied, Shadow } from "./shadow.ts";
import type { Dialect } from "./table.ts";

/**
 * The number of elements per transaction. 250,000 elements take 3.5 s in transactions of this size and hardly less in
 * larger ones; smaller ones need less memory and block other changes for less time.
 */
const ELEMENTS_PER_TRANSACTION = 10_000;

/** The work to cut into transactions. */
export interface ChangeWork {
  readonly desired: Desired;
  /** The service ports whose part of the table may not be as desired. */
  readonly dirty: ReadonlySet<ServicePortKey>;
  readonly kernel: Shadow;
  readonly settings: FamilySettings;
  readonly dialect: Dialect;
}

/**
 * Cuts the changes into batches of one transaction each, and renders a batch when it is requested. Deleted service ports
 * come last. If the table is replaced, everything is one batch; the last batch may be empty.
 */
export function* changeBatches(work: ChangeWork): Generator<Change[]> {
  const { desired, dirty, kernel } = work;
  const limit = kernel.sets === "different" ? Infinity : ELEMENTS_PER_TRANSACTION;
  let batch: Change[] = [], elements = 0;
  for (const goes of [false, true]) {
    for (const key of dirty) {
      if ((desired.servicePort(key) === undefined) !== goes) continue;
      const change = changeOf(key, work);
      batch.push(change);
      elements += Math.max(change.before.elements.length, change.after.elements.length);
      if (elements < limit) continue;
      yield batch;
      batch = [];
      elements = 0;
    }
  }
  yield batch;
}

function changeOf(key: ServicePortKey, { desired, kernel, settings, dialect }: ChangeWork): Change {
  const port = desired.servicePort(key);
  const next: Applied | undefined = port && { port, settings };
  const after = port ? contributionOf(port, settings, dialect) : NOTHING;
  return { key, before: contributionInKernel(key, kernel, dialect), after, next };
}

function contributionInKernel(key: ServicePortKey, kernel: Shadow, dialect: Dialect): Contribution {
  const applied = kernel.applied.get(key);
  if (applied) return contributionOf(applied.port, applied.settings, dialect);
  return kernel.partial.get(key) ?? NOTHING;
}
