/** The feature gates of Kubernetes 1.36 that concern a service proxy on Linux, and what is made of those that are set. */

/** How far a feature has come, as `kubernetes_feature_enabled` labels it; general availability is the empty text. */
export type FeatureStage = "ALPHA" | "BETA" | "" | "DEPRECATED";

/** A feature gate as Kubernetes 1.36 has it. */
export interface FeatureGate {
  readonly stage: FeatureStage;
  /** Whether it is on where nothing is said of it. */
  readonly initial: boolean;
  /** Whether it can be set to nothing else. */
  readonly locked: boolean;
}

const gate = (stage: FeatureStage, initial = true): FeatureGate => ({ stage, initial, locked: stage === "" });

/**
 * The gates that pkg/proxy and cmd/kube-proxy of Kubernetes 1.36 ask for on Linux: all of them are obeyed. Of general
 * availability are only gates that are locked.
 */
export const FEATURE_GATES = {
  /** Whether Service.spec.externalIPs is served (KEP-5707). */
  AllowServiceExternalIPs: gate("DEPRECATED"),
  /** Whether there is `/flagz` (KEP-4828). */
  ComponentFlagz: gate("BETA"),
  /** Whether there is `/statusz` (KEP-4827). */
  ComponentStatusz: gate("BETA"),
  /** Whether ServiceCIDR objects are read (KEP-1880). */
  MultiCIDRServiceAllocator: gate(""),
  /** Whether there is mode nftables (KEP-3866). */
  NFTablesProxyMode: gate(""),
  /** Whether hints for nodes are followed, and hints without annotation (KEP-3015). */
  PreferSameTrafficDistribution: gate(""),
} as const satisfies Readonly<Record<string, FeatureGate>>;

/** The name of a gate that is obeyed. */
export type FeatureName = keyof typeof FEATURE_GATES;

/** What the configuration sets, by name. */
type Switches = Readonly<Record<string, boolean>>;

/** The two names that stand for all gates of a stage that nothing else is said of. */
const ALL_OF_STAGE: Readonly<Record<string, FeatureStage>> = { AllAlpha: "ALPHA", AllBeta: "BETA" };

/** Whether a feature is on: as it was set itself, or its stage, or else as Kubernetes 1.36 has it. */
export function isFeatureEnabled(name: FeatureName, set: Switches): boolean {
  const { stage, initial } = FEATURE_GATES[name];
  const ofStage = Object.keys(ALL_OF_STAGE).find((all) => ALL_OF_STAGE[all] === stage);
  return set[name] ?? (ofStage === undefined ? undefined : set[ofStage]) ?? initial;
}

/** What is to be said of the gates that are set. */
export interface GateFindings {
  /** A gate that kube-proxy would not start with, each with why. */
  readonly refused: readonly string[];
  /** Gates without effect, or that are to go. */
  readonly warnings: readonly string[];
}

/** Looks through the gates that are set: a locked one is refused, as by kube-proxy; one that is not obeyed is named. */
export function checkFeatureGates(set: Switches): GateFindings {
  const refused: string[] = [], warnings: string[] = [], unknown: string[] = [];
  for (const [name, value] of Object.entries(set)) {
    if (Object.hasOwn(ALL_OF_STAGE, name)) continue;
    const known: FeatureGate | undefined = Object.hasOwn(FEATURE_GATES, name)
      ? FEATURE_GATES[name as FeatureName]
      : undefined;
    if (known === undefined) {
      unknown.push(name);
    } else if (known.locked && value !== known.initial) {
      refused.push(`sets ${name} to ${value}: Kubernetes 1.36 has locked it to ${known.initial}; leave it out`);
    } else if (known.stage === "DEPRECATED") {
      warnings.push(`sets the deprecated gate ${name}, which a later release removes`);
    }
  }
  if (unknown.length > 0) {
    const those = `${unknown.sort().join(", ")}: ${unknown.length === 1 ? "it has" : "they have"} no effect in Sluice`;
    warnings.push(`sets ${those}, which obeys ${Object.keys(FEATURE_GATES).join(", ")}`);
  }
  return { refused, warnings };
}
