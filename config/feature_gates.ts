/** The feature gates of Kubernetes 1.37 that concern a service proxy on Linux. */

/** The stage of a feature, as in the label of `kubernetes_feature_enabled`; empty for general availability. */
type FeatureStage = "ALPHA" | "BETA" | "" | "DEPRECATED";

/** A feature gate of Kubernetes 1.37. */
interface FeatureGate {
  readonly stage: FeatureStage;
  readonly locked: boolean;
}

const gate = (stage: FeatureStage, locked = stage === ""): FeatureGate => ({ stage, locked });

/**
 * The gates that pkg/proxy and cmd/kube-proxy of Kubernetes 1.37 check on Linux, except those without a meaning in Sluice
 * (NFTablesNetlink: how kube-proxy talks to the kernel). All are on by default.
 */
export const FEATURE_GATES = {
  /** Whether Service.spec.externalIPs is served (KEP-5707). */
  AllowServiceExternalIPs: gate("", false),
  /** Whether `/flagz` is served (KEP-4828). */
  ComponentFlagz: gate("BETA"),
  /** Whether `/statusz` is served (KEP-4827). */
  ComponentStatusz: gate("BETA"),
  /** Whether IPVS mode is available (KEP-5495). */
  KubeProxyIPVS: gate("DEPRECATED"),
  /** Whether nftables mode serves node ports at loopback addresses (KEP-6032); off in kube-proxy unless it is set. */
  KubeProxyNFTablesLocalhostNodePorts: gate("ALPHA"),
  /** Whether ServiceCIDRs are watched (KEP-1880). */
  MultiCIDRServiceAllocator: gate(""),
  /** Whether nftables mode is available (KEP-3866). */
  NFTablesProxyMode: gate(""),
  /** Whether node hints, and hints without the annotation, are used (KEP-3015). */
  PreferSameTrafficDistribution: gate(""),
} as const satisfies Readonly<Record<string, FeatureGate>>;

/** The name of a supported gate. */
export type FeatureName = keyof typeof FEATURE_GATES;

type Switches = Readonly<Record<string, boolean>>;

/** The two names that set all gates of a stage, except gates that are set individually. */
const ALL_OF_STAGE: Readonly<Record<string, FeatureStage>> = { AllAlpha: "ALPHA", AllBeta: "BETA" };

/** Whether a feature is enabled: its own setting, else the setting of its stage, else yes. */
export function isFeatureEnabled(name: FeatureName, set: Switches): boolean {
  const { stage } = FEATURE_GATES[name];
  const ofStage = Object.keys(ALL_OF_STAGE).find((all) => ALL_OF_STAGE[all] === stage);
  return set[name] ?? (ofStage === undefined ? undefined : set[ofStage]) ?? true;
}

/**
 * Checks the configured gates. `refused` says why kube-proxy would refuse some, since a locked one cannot be changed; warnings
 * are about deprecated ones, and those without effect.
 */
export function checkFeatureGates(
  set: Switches,
): { readonly refused: readonly string[]; readonly warnings: readonly string[] } {
  const refused: string[] = [], warnings: string[] = [], unknown: string[] = [];
  for (const [name, value] of Object.entries(set)) {
    if (Object.hasOwn(ALL_OF_STAGE, name)) continue;
    const known: FeatureGate | undefined = Object.hasOwn(FEATURE_GATES, name)
      ? FEATURE_GATES[name as FeatureName]
      : undefined;
    if (known === undefined) {
      unknown.push(name);
    } else if (known.locked && !value) {
      refused.push(`sets ${name} to false: Kubernetes 1.37 locks it to true; remove it`);
    } else if (known.stage === "DEPRECATED") {
      warnings.push(`sets the deprecated gate ${name}, which a later release will remove`);
    }
  }
  if (unknown.length > 0) {
    const supported = Object.keys(FEATURE_GATES).join(", ");
    warnings.push(`sets ${unknown.sort().join(", ")}: no effect in Sluice, which supports ${supported}`);
  }
  return { refused, warnings };
}
