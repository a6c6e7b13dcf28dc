/** A pod of this node that the container runtime keeps running. Plain data. */
export interface LivePod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Whether it is of the kubelet's own files: the UID of its object in the API is then another one. */
  readonly isStatic: boolean;
  /** Its addresses in canonical form: none until it has a network, or if it uses the node's; undefined if not known. */
  readonly addresses: readonly string[] | undefined;
  /** Whether it uses the network of the node, whose addresses are its own. */
  readonly usesHostNetwork: boolean;
}

/** The pods of the runtime, or why they are not known. Plain data. */
export type PodReport =
  | { readonly pods: readonly LivePod[] }
  | { readonly problem: string };

/** Watches the pods of a runtime. */
export interface PodWatch {
  /** The socket, as on the command line: `unix:///run/containerd/containerd.sock`. */
  readonly endpoint: string;
  /** Calls the listener with the last report, if there is one, and with later ones that differ, until the result is called. */
  follow(listener: (report: PodReport) => void): () => void;
  /** Ends the watch, and the connection to the runtime, for good. */
  end(): void;
  isEnded(): boolean;
}
