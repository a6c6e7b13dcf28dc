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
  /** Set if the source has no labels, whatever the settings. */
  readonly areUnavailable?: true;
}

/** Which objects to use, and how much of them. */
export interface DecodeOptions {
  /**
   * The proxy's name: it serves the services that have it as their label `service.kubernetes.io/service-proxy-name`. By
   * default, it serves those without the label (KEP-2447).
   */
  readonly serviceProxyName?: string;
  /** With it, objects are decoded with their details, to pass them on. */
  readonly details?: DetailFilters;
  /** Whether the pods of a node's endpoints are kept; those of no node by default. */
  readonly podsOf?: (nodeName: string) => boolean;
  /** The labels of Nodes and Pods that weights may refer to; none by default. */
  readonly labelKeys?: LabelKeys;
}
