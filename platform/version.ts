/** Sluice's version. */
export const VERSION = "0.1.0";

/** The Kubernetes release whose kube-proxy this version behaves like. */
export const KUBERNETES_VERSION = "v1.36.2";
