/** Whether to keep the label or annotation with this key. */
export type KeyFilter = (key: string) => boolean;

/** The labels and annotations that are passed on. */
export interface DetailFilters {
  readonly serviceLabels: KeyFilter;
  readonly serviceAnnotations: KeyFilter;
  readonly nodeLabels: KeyFilter;
  readonly nodeAnnotations: KeyFilter;
}

/** Keys of labels. */
export interface LabelKeys {
  readonly nodes: readonly string[];
  readonly pods: readonly string[];
  /** Set if the source has no labels, regardless of the settings. */
  readonly areUnavailable?: true;
}

/** Which objects to use, and how much of them. */
export interface DecodeOptions {
  /** The label `service.kubernetes.io/service-proxy-name` of the services to serve; by default, those without it (KEP-2447). */
  readonly serviceProxyName?: string;
  /** With it, objects are decoded with their details, to pass them on. */
  readonly details?: DetailFilters;
  /** Whether to keep the pods of the endpoints on this node; by default, no pods are kept. */
  readonly podsOf?: (nodeName: string) => boolean;
  /** The labels of Nodes and Pods that weights may refer to; none by default. */
  readonly labelKeys?: LabelKeys;
}
