/** Where the recorded shapes come from. */

/** The Kubernetes versions that Sluice supports, each by its newest patch whose module can be downloaded; oldest first. */
export const KUBERNETES_VERSIONS = [
  "1.29.15",
  "1.30.14",
  "1.31.14",
  "1.32.13",
  "1.33.13",
  "1.34.4",
  "1.35.4",
  "1.36.3",
  "1.37.2",
] as const;

/** Version of the Prometheus operator, whose objects the Helm chart may create. */
export const PROMETHEUS_OPERATOR = "0.85.0";

/** Kinds that Sluice reads, by API version. ServiceCIDR was an alpha and a beta first. */
export const READ_KINDS: Readonly<Record<string, readonly string[]>> = {
  "v1": ["Service", "Node"],
  "discovery.k8s.io/v1": ["EndpointSlice"],
  "networking.k8s.io/v1alpha1": ["ServiceCIDR"],
  "networking.k8s.io/v1beta1": ["ServiceCIDR"],
  "networking.k8s.io/v1": ["ServiceCIDR"],
};

/** Kinds that Sluice and its manifests create, by API version. */
export const WRITTEN_KINDS: Readonly<Record<string, readonly string[]>> = {
  "v1": ["ConfigMap", "Event", "Namespace", "Secret", "ServiceAccount"],
  "apps/v1": ["DaemonSet", "Deployment"],
  "coordination.k8s.io/v1": ["Lease"],
  "networking.k8s.io/v1": ["NetworkPolicy"],
  "rbac.authorization.k8s.io/v1": ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"],
};

/** Types of Go whose values are enumerated, with the name of their package in k8s.io/api. */
export const ENUMERATIONS: Readonly<Record<string, string>> = {
  AddressType: "discovery/v1",
  LoadBalancerIPMode: "core/v1",
  NodeAddressType: "core/v1",
  Protocol: "core/v1",
  ServiceAffinity: "core/v1",
  ServiceExternalTrafficPolicy: "core/v1",
  ServiceInternalTrafficPolicy: "core/v1",
  ServiceType: "core/v1",
};
