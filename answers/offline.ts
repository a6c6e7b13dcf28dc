import { isUnreadable, type ReportProblems } from "../core/problems/mod.ts";
import { abortedBy, FAMILIES, type Family } from "../platform/mod.ts";
import { balanceOptions, familySettings, isFeatureEnabled, watchedKinds } from "../config/mod.ts";
import type { FamilyDelta, RelayPlaces, RelayPorts, RuleDescription, ServicePortKey } from "../core/model/mod.ts";
import { createFamilyPlanner, type FamilyPlanner } from "../core/planning/mod.ts";
import { openSource, type SourceOptions } from "../sources/mod.ts";
import { createTracking, type Tracking } from "../core/tracking/mod.ts";
import { addressesOfHost, type Answers, createAnswers } from "./answers.ts";

interface OfflineOptions extends SourceOptions {
  readonly signal: AbortSignal;
  /** Receives the problems of reading the source, except the one that makes it fail. */
  readonly onProblems: ReportProblems;
  /** Receives those of planning; ignored by default: an answer has notes on its own services, and others would be in the way. */
  readonly onPlanned?: ReportProblems;
  /** Returns the rules that a proxy would write for a service port. */
  readonly rules: (family: Family, state: FamilyDelta, key: ServicePortKey) => Promise<RuleDescription | undefined>;
}

/** Answers from one reading of the source. Rejects if it cannot be read, or with the signal's reason. */
export async function answerOffline(options: OfflineOptions): Promise<Answers> {
  const { configuration, rules, onPlanned = () => {} } = options;
  const { nodeName } = configuration;
  const tracking = await readOnce(options);
  const changes = tracking.take();
  const answers = createAnswers({
    nodeName,
    mode: configuration.modeDescription,
    tracking,
    families: Object.fromEntries(FAMILIES.map((family) => [family, basisOf(family)])) as Record<
      Family,
      ReturnType<typeof basisOf>
    >,
    balance: balanceOptions(configuration),
    rulesFrom: "rendering",
    // For another node, only the addresses in its Node object are known.
    hostAddresses: () => nodeName === Deno.hostname().trim().toLowerCase() ? addressesOfHost() : [],
  });
  return answers;

  function basisOf(family: Family) {
    const planner = createFamilyPlanner({
      family,
      nodeName,
      tracking,
      balance: balanceOptions(configuration),
      onProblems: onPlanned,
    });
    planner.plan(changes);
    return {
      planner,
      settings: () => familySettings(family, configuration, tracking.node.state(), tracking.serviceCIDRs.ranges()),
      revision: () => 0,
      rules: async (key: ServicePortKey) => await rules(family, await answers.state(family), key),
      since: () => undefined,
      relayPlaces: () => configuration.modeDescription.relay === "services" ? exampleOfPlaces(planner) : undefined,
    };
  }
}

/** The first port that stands for one of the relay's. */
const FIRST_EXAMPLE_PORT = 40_001;

/** Placeholder for the ports of a relay, which the system assigns when it starts. */
function exampleOfPlaces(planner: Pick<FamilyPlanner, "ports">): RelayPlaces {
  const ports = new Map<ServicePortKey, RelayPorts>();
  let port = FIRST_EXAMPLE_PORT;
  for (const { key, planned } of planner.ports()) {
    if (planned === undefined || planned.protocol === "sctp") continue;
    const cluster = planned.clusterEndpoints.length > 0 ? port++ : undefined;
    const local = planned.localEndpoints.length > 0 ? port++ : undefined;
    ports.set(key, { cluster, local });
  }
  return { address: undefined, ports };
}

/** Reads the source until it has synced. Rejects if it cannot be read: nobody who asks waits until it can. */
async function readOnce(options: OfflineOptions): Promise<Tracking> {
  const { configuration, clock, signal } = options;
  const { nodeName, bindAddress } = configuration;
  const synced = new AbortController(), failed = new AbortController();
  const onProblems: ReportProblems = (scope, problems) => {
    const cause = problems.find(({ code }) => isUnreadable(code));
    if (cause === undefined || synced.signal.aborted) options.onProblems(scope, problems);
    else failed.abort(new Error(`cannot read the source: ${cause.subject}: ${cause.detail}`));
  };
  const tracking = createTracking({
    kinds: watchedKinds(configuration),
    nodeName,
    bindAddress,
    externalIPs: isFeatureEnabled("AllowServiceExternalIPs", configuration.featureGates),
    clock,
    onChange: () => synced.abort(new Error("caches synced")),
    onProblems,
  });
  const { source, close } = await openSource(options);
  try {
    await source.run(tracking, abortedBy(signal, synced.signal, failed.signal).signal);
  } catch (error) {
    if (!synced.signal.aborted && !failed.signal.aborted) throw error;
  } finally {
    close();
  }
  signal.throwIfAborted();
  failed.signal.throwIfAborted();
  return tracking;
}
