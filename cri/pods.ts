import { type Connection, unaryCall } from "../kpng/client/mod.ts";
import type { Message, TypeOf } from "../kpng/codec/mod.ts";
import { STATUS, StatusError } from "../kpng/transport/mod.ts";
import { canonicalAddress, type Clock } from "../platform/mod.ts";
import type { LivePod } from "./live_pod.ts";
import {
  LIST_REQUEST,
  LIST_RESPONSE,
  METHODS,
  NAMESPACE_MODE,
  SANDBOX_STATE,
  STATUS_REQUEST,
  STATUS_RESPONSE,
} from "./messages.ts";

/** The longest message that the kubelet accepts from a runtime. */
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;

/** A runtime that does not answer within this time is not going to. */
const TIMEOUT_MS = 5_000;

/** The kubelet's annotation with the origin of a pod; `api` for all except static pods. */
const CONFIG_SOURCE = "kubernetes.io/config.source";

type Sandbox = NonNullable<TypeOf<typeof LIST_RESPONSE>["items"]>[number];
type Network = Pick<LivePod, "addresses" | "usesHostNetwork">;

/** Reads the pods of a runtime. */
export interface PodReader {
  /** @throws {Error} if the connection fails, or the runtime refuses to list its pods */
  read(): Promise<readonly LivePod[]>;
}

/** Creates a reader, which asks for the network of a sandbox until it has one, and then no more. */
export function createPodReader(connection: Connection, clock: Clock): PodReader {
  let known = new Map<string, Network>();

  const call = async <Q, A>(method: string, [request, response]: readonly [Message<Q>, Message<A>], value: Q) => {
    const limits = { maxMessageBytes: MAX_MESSAGE_BYTES, timeoutMs: TIMEOUT_MS, clock };
    return response.decode(await unaryCall(connection, { method, request: request.encode(value), ...limits }));
  };

  const networkOf = async (podSandboxId: string): Promise<Network | undefined> => {
    try {
      return readNetwork(await call(METHODS.status, [STATUS_REQUEST, STATUS_RESPONSE], { podSandboxId }));
    } catch (error) {
      if (!(error instanceof StatusError)) throw error;
      return error.status === STATUS.notFound ? undefined : { addresses: undefined, usesHostNetwork: false };
    }
  };

  return {
    async read() {
      const filter = { state: { state: SANDBOX_STATE.ready } };
      const { items = [] } = await call(METHODS.list, [LIST_REQUEST, LIST_RESPONSE], { filter });
      const found = new Map<string, Network>();
      const pods = await Promise.all(
        newestOfEachPod(items).map(async (sandbox): Promise<LivePod[]> => {
          const { id = "", metadata: { namespace = "", name = "", uid = "" } = {}, annotations = {} } = sandbox;
          const network = known.get(id) ?? await networkOf(id);
          if (network === undefined) return [];
          if (network.usesHostNetwork || (network.addresses ?? []).length > 0) found.set(id, network);
          const isStatic = (annotations[CONFIG_SOURCE] || "api") !== "api";
          return [{ namespace, name, uid, isStatic, ...network }];
        }),
      );
      known = found;
      return pods.flat();
    },
  };
}

/** The ready sandboxes, of several of the same pod the one created last. */
function newestOfEachPod(items: readonly Sandbox[]): Sandbox[] {
  const newest = new Map<string, Sandbox>();
  for (const sandbox of items) {
    const { state = SANDBOX_STATE.ready, createdAt = 0n, metadata: { uid = "" } = {} } = sandbox;
    // Not every runtime applies the filter.
    if (state !== SANDBOX_STATE.ready) continue;
    const before = newest.get(uid);
    if (before === undefined || (before.createdAt ?? 0n) < createdAt) newest.set(uid, sandbox);
  }
  return [...newest.values()];
}

/** The network of a sandbox. A runtime gives one in the network of the node no address. */
function readNetwork({ status: { network, linux } = {} }: TypeOf<typeof STATUS_RESPONSE>): Network {
  const { ip = "", additionalIps = [] } = network ?? {};
  const texts = [ip, ...additionalIps.map(({ ip = "" }) => ip)];
  const usesHostNetwork = linux?.namespaces?.options?.network === NAMESPACE_MODE.node;
  return { addresses: texts.flatMap((text) => canonicalAddress(text) ?? []), usesHostNetwork };
}
