/**
 * The running pods of this node's container runtime, and their addresses (CRI, the Container Runtime Interface).
 *
 *   messages.ts  the runtime's messages
 *
 * In: the runtime's socket. Out: pods. May touch: that socket; it only lists sandboxes and reads their status.
 */
import { type Connection, openConnection, unaryCall } from "../../kpng/client/mod.ts";
import type { Message, TypeOf } from "../../kpng/codec/mod.ts";
import { STATUS, StatusError } from "../../kpng/transport/mod.ts";
import type { LivePod, PodReport } from "../../core/objects/mod.ts";
import { canonicalAddress, type Clock, createBackoff, errorText, sameData, sleep } from "../../platform/mod.ts";
import {
  LIST_REQUEST,
  LIST_RESPONSE,
  METHODS,
  NAMESPACE_MODE,
  SANDBOX_STATE,
  STATUS_REQUEST,
  STATUS_RESPONSE,
} from "./messages.ts";

/** The pause between two polls. */
const REST_MS = 1_000;

/** The delays after failures: a runtime that starts with the node is available soon. */
const BACKOFF = { firstMs: 100, longestMs: 2_000 };

/** Watches the pods of the runtime at a socket, until the process ends. `onReport` is called with each report that differs. */
export async function watchPods(path: string, clock: Clock, onReport: (report: PodReport) => void): Promise<never> {
  const backoff = createBackoff(BACKOFF);
  let last: PodReport | undefined;
  const report = (next: PodReport) => {
    if (!sameData(last, next)) onReport(next);
    last = next;
  };
  for (;; await sleep(clock, backoff.nextMs())) {
    const { promise: ended, reject } = Promise.withResolvers<never>();
    ended.catch(() => {});
    let connection: Connection | undefined;
    try {
      connection = await openConnection({ address: { kind: "unix", path }, tls: undefined, clock, onEnd: reject });
      const read = createPodReader(connection, clock);
      for (;; await Promise.race([sleep(clock, REST_MS), ended])) {
        report({ pods: await Promise.race([read(), ended]) });
        backoff.reset();
      }
    } catch (error) {
      report({ problem: errorText(error) });
    } finally {
      connection?.close();
    }
  }
}

/** The longest message that the kubelet accepts from a runtime. */
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;

/** The maximum number of pods, each of which costs a request; a kubelet runs 110 by default. */
const MOST_PODS = 10_000;

/** The timeout of a request: a runtime that has not answered by then will not answer. */
const TIMEOUT_MS = 5_000;

/** The kubelet's annotation with the origin of a pod; `api` for all except static pods. */
const CONFIG_SOURCE = "kubernetes.io/config.source";

type Sandbox = NonNullable<TypeOf<typeof LIST_RESPONSE>["items"]>[number];
type Network = Pick<LivePod, "addresses" | "usesHostNetwork">;

/** Creates a function that reads the pods of a runtime. It rejects if the connection fails or the runtime refuses. */
export function createPodReader(connection: Connection, clock: Clock): () => Promise<readonly LivePod[]> {
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
      return error.status === STATUS.NOT_FOUND ? undefined : { addresses: undefined, usesHostNetwork: false };
    }
  };

  return async () => {
    const filter = { state: { state: SANDBOX_STATE.ready } };
    const { items = [] } = await call(METHODS.list, [LIST_REQUEST, LIST_RESPONSE], { filter });
    const found = new Map<string, Network>();
    const newest = newestOfEachPod(items);
    if (newest.length > MOST_PODS) throw new Error(`it has ${newest.length} pods, more than the limit of ${MOST_PODS}`);
    const pods = await Promise.all(
      newest.map(async (sandbox): Promise<LivePod[]> => {
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
  };
}

/** The ready sandboxes; for each pod, the newest one. */
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

/** The network of a sandbox. In the host network, a sandbox has no address of its own. */
function readNetwork({ status: { network, linux } = {} }: TypeOf<typeof STATUS_RESPONSE>): Network {
  const { ip = "", additionalIps = [] } = network ?? {};
  const texts = [ip, ...additionalIps.map(({ ip = "" }) => ip)];
  const usesHostNetwork = linux?.namespaces?.options?.network === NAMESPACE_MODE.node;
  return { addresses: texts.flatMap((text) => canonicalAddress(text) ?? []), usesHostNetwork };
}
