/** The pods that run on this node, as its container runtime knows them. */

/** A running pod in the container runtime of this node. Plain data. */
export interface LivePod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Whether it is a static pod, from a file of the kubelet: its object in the API then has another UID. */
  readonly isStatic: boolean;
  /** Its canonical addresses: empty until it has a network, or in the host network; undefined if unknown. */
  readonly addresses: readonly string[] | undefined;
  /** Whether it is in the host network, with the node's addresses. */
  readonly usesHostNetwork: boolean;
}

/** The pods of the runtime, or the reason why they are unknown. Plain data. */
export type PodReport =
  | { readonly pods: readonly LivePod[] }
  | { readonly problem: string };

/** Watches the pods of a runtime. */
export interface PodWatch {
  /** The socket, as on the command line: `unix:///run/containerd/containerd.sock`. */
  readonly endpoint: string;
  /** Calls the listener with the last report and each different one after it. Returns a function that unsubscribes. */
  follow(listener: (report: PodReport) => void): () => void;
  /** Ends the watch, and the connection to the runtime, for good. */
  end(): void;
  isEnded(): boolean;
}
