/**
 * The data that travels from the cluster side to the kernel side: plain objects per IP family, every decision taken. A
 * family's worker knows nothing of Kubernetes beyond these names.
 *
 * Addresses are canonical strings (see platform/address.ts), endpoints are `address:port` strings.
 */
export type { Family } from "../../platform/mod.ts";
export { completesState, type FamilyDelta } from "./delta.ts";
export {
  DUMMY_INTERFACE,
  type FamilySettings,
  type IpvsSettings,
  type LocalTraffic,
  type ProxyMode,
} from "./family_settings.ts";
export {
  admittedSources,
  type Frontend,
  type FrontendKind,
  frontendsOf,
  hasExternalFrontends,
  isPolicyLocal,
} from "./frontend.ts";
export type { PacketCounts, RuleDescription, RulePart } from "./rule_description.ts";
export {
  type LoadBalancerSources,
  type Protocol,
  type ServicePort,
  type ServicePortKey,
  servicePortKey,
  type ServicePortName,
  type Verdict,
} from "./service_port.ts";
export type { SyncProblem, SyncReport } from "./sync_report.ts";
