import type { FamilySettings, ServicePortKey } from "../../core/model/mod.ts";
import { type Contribution, contributionOf, NOTHING } from "./contribution.ts";
import type { Desired } from "./desired.ts";
import type { Change } from "./plan.ts";
import type { Applied, Shadow } from "./shadow.ts";
import type { Dialect } from "./table.ts";

/**
 * How many elements go into one transaction. 250,000 take 3.5 s in as many transactions as that makes, and hardly less
 * in fewer; what is rendered at a time, and the time in which nothing else can get through, are smaller.
 */
const ELEMENTS_PER_TRANSACTION = 10_000;

/** What is to be changed, and in what. */
export interface ChangeWork {
  readonly desired: Desired;
  /** The service ports whose part of the table may be another than it should be. */
  readonly dirty: ReadonlySet<ServicePortKey>;
  readonly kernel: Shadow;
  readonly settings: FamilySettings;
  readonly dialect: Dialect;
}

/**
 * Cuts the changes into what goes into one transaction each, putting each together only when it is its turn. Service
 * ports that go are last. Where the table is made anew, everything is one batch; the last one may be empty.
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
