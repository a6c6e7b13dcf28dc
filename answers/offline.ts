import { createProblemBoard, type ReportProblems } from "../core/problems/mod.ts";
import { abortedBy, FAMILIES, type Family } from "../platform/mod.ts";
import { familySettings, isFeatureEnabled } from "../config/mod.ts";
import type { FamilyDelta, RuleDescription, ServicePortKey } from "../core/model/mod.ts";
import { createFamilyPlanner } from "../core/planning/mod.ts";
import { openSource, type SourceOptions } from "../sources/mod.ts";
import { createTracking, type Tracking } from "../core/tracking/mod.ts";
import { type Answers, createAnswers } from "./answers.ts";
import { addressesOfHost } from "./basis.ts";

/** The dependencies of `answerOffline`. */
export interface OfflineOptions extends SourceOptions {
  readonly signal: AbortSignal;
  /** Returns the rules that a proxy would write for a service port. */
  readonly rules: (family: Family, state: FamilyDelta, key: ServicePortKey) => Promise<RuleDescription | undefined>;
}

/**
 * Reads the configured source once and answers from its objects, without a running proxy and without the kernel. Rejects if
 * the source cannot be read, or with the signal's reason.
 */
export async function answerOffline(options: OfflineOptions): Promise<Answers> {
  const { configuration, logger, rules } = options;
  const { nodeName } = configuration;
  const { report: onProblems } = createProblemBoard(options.clock, logger);
  const tracking = await readOnce(options, onProblems);
  const changes = tracking.take();
  const answers = createAnswers({
    nodeName,
    mode: configuration.modeDescription,
    tracking,
    families: Object.fromEntries(FAMILIES.map((family) => [family, basisOf(family)])) as Record<
      Family,
      ReturnType<typeof basisOf>
    >,
    rulesFrom: "rendering",
    // For another node, only the addresses in its Node object are known.
    hostAddresses: () => nodeName === Deno.hostname().trim().toLowerCase() ? addressesOfHost() : [],
  });
  return answers;

  function basisOf(family: Family) {
    const planner = createFamilyPlanner({ family, nodeName, tracking, onProblems });
    planner.plan(changes);
    return {
      planner,
      settings: () => familySettings(family, configuration, tracking.node.state(), tracking.serviceCIDRs.ranges()),
      revision: () => 0,
      rules: async (key: ServicePortKey) => await rules(family, await answers.state(family), key),
      since: () => undefined,
    };
  }
}

async function readOnce(
  options: OfflineOptions,
  onProblems: ReportProblems,
): Promise<Tracking> {
  const { configuration, clock, signal } = options;
  const { nodeName, bindAddress } = configuration;
  const synced = new AbortController();
  const tracking = createTracking({
    kinds: configuration.modeDescription.kinds,
    nodeName,
    bindAddress,
    externalIPs: isFeatureEnabled("AllowServiceExternalIPs", configuration.featureGates),
    clock,
    onChange: () => synced.abort(new Error("caches synced")),
    onProblems,
  });
  const { source, close } = await openSource(options);
  try {
    await source.run(tracking, abortedBy(signal, synced.signal).signal);
  } catch (error) {
    if (!synced.signal.aborted) throw error;
  } finally {
    close();
  }
  signal.throwIfAborted();
  return tracking;
}
