/** The messages of the container runtime's API (k8s.io/cri-api, pkg/apis/runtime/v1/api.proto), as far as used. */
import { int32, message, nested, several, text, textMap, uint64 } from "../../kpng/codec/mod.ts";

/** The methods, as paths of gRPC calls. */
export const METHODS = {
  list: "/runtime.v1.RuntimeService/ListPodSandbox",
  status: "/runtime.v1.RuntimeService/PodSandboxStatus",
} as const;

/** `PodSandboxState`. */
export const SANDBOX_STATE = { ready: 0, notReady: 1 } as const;

/** `NamespaceMode`, in part. */
export const NAMESPACE_MODE = { pod: 0, node: 2 } as const;

const STATE_VALUE = message({ state: int32(1) });
const FILTER = message({ state: nested(2, STATE_VALUE) });

/** `ListPodSandboxRequest`. */
export const LIST_REQUEST = message({ filter: nested(1, FILTER) });

const METADATA = message({ name: text(1), uid: text(2), namespace: text(3) });
const SANDBOX = message({
  id: text(1),
  metadata: nested(2, METADATA),
  state: int32(3),
  /** In nanoseconds since 1970. */
  createdAt: uint64(4),
  annotations: textMap(6),
});

/** `ListPodSandboxResponse`. */
export const LIST_RESPONSE = message({ items: several(1, SANDBOX) });

/** `PodSandboxStatusRequest`. */
export const STATUS_REQUEST = message({ podSandboxId: text(1) });

const POD_IP = message({ ip: text(1) });
const NETWORK = message({ ip: text(1), additionalIps: several(2, POD_IP) });
const NAMESPACE_OPTION = message({ network: int32(1) });
const NAMESPACES = message({ options: nested(2, NAMESPACE_OPTION) });
const LINUX = message({ namespaces: nested(1, NAMESPACES) });
const STATUS = message({ network: nested(5, NETWORK), linux: nested(6, LINUX) });

/** `PodSandboxStatusResponse`. */
export const STATUS_RESPONSE = message({ status: nested(1, STATUS) });
