/** A container runtime's API on a unix socket, with the sandboxes that a test gives it. */
import type { ServerHttp2Stream } from "node:http2";
import {
  LIST_REQUEST,
  LIST_RESPONSE,
  METHODS,
  NAMESPACE_MODE,
  SANDBOX_STATE,
  STATUS_REQUEST,
  STATUS_RESPONSE,
} from "../../workers/cri/messages.ts";
import { createFrameReader, encodeStatusMessage, framesOf, STATUS } from "../../kpng/transport/grpc.ts";
import { startHttp2Server } from "./http2_server.ts";

/** A sandbox of a pod. */
export interface FakeSandbox {
  readonly id: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** None by default. */
  readonly ips?: readonly string[];
  readonly usesHostNetwork?: true;
  readonly isNotReady?: true;
  /** The annotation of its origin; `api` by default. */
  readonly configSource?: string;
  /** In nanoseconds; 1 by default. */
  readonly createdAt?: bigint;
}

/** The runtime and its controls. */
export interface FakeContainerRuntime {
  /** Replaces all sandboxes. */
  run(...sandboxes: readonly FakeSandbox[]): void;
  /** Refuses calls of a method with this status, or with undefined answers them again. */
  refuse(method: keyof typeof METHODS, status: number | undefined): void;
  /** The ids of the sandboxes whose status was asked, in order. */
  readonly asked: readonly string[];
  /** Resolves when no client is connected. */
  alone(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Starts a runtime at the path of a socket.
 * @param appliesFilter whether it lists only the sandboxes that a request asks for
 */
export async function startFakeContainerRuntime(path: string, appliesFilter = true): Promise<FakeContainerRuntime> {
  let sandboxes: readonly FakeSandbox[] = [];
  const refused = new Map<string, number>();
  const asked: string[] = [];

  const list = (request: Uint8Array<ArrayBuffer>) => {
    const { state } = LIST_REQUEST.decode(request).filter ?? {};
    const wanted = appliesFilter && state ? state.state ?? SANDBOX_STATE.ready : undefined;
    const stateOf = ({ isNotReady }: FakeSandbox) => isNotReady ? SANDBOX_STATE.notReady : SANDBOX_STATE.ready;
    const items = sandboxes.filter((one) => wanted === undefined || stateOf(one) === wanted).map((one) => ({
      id: one.id,
      metadata: { name: one.name, uid: one.uid, namespace: one.namespace },
      state: stateOf(one),
      createdAt: one.createdAt ?? 1n,
      annotations: { "kubernetes.io/config.source": one.configSource ?? "api" },
    }));
    return LIST_RESPONSE.encode({ items });
  };

  const status = (request: Uint8Array<ArrayBuffer>) => {
    const { podSandboxId = "" } = STATUS_REQUEST.decode(request);
    asked.push(podSandboxId);
    const found = sandboxes.find(({ id }) => id === podSandboxId);
    if (found === undefined) return undefined;
    const [ip = "", ...more] = found.ips ?? [];
    const network = found.usesHostNetwork ? NAMESPACE_MODE.node : NAMESPACE_MODE.pod;
    return STATUS_RESPONSE.encode({
      status: {
        network: { ip, additionalIps: more.map((ip) => ({ ip })) },
        linux: { namespaces: { options: { network } } },
      },
    });
  };

  const answer = (stream: ServerHttp2Stream, method: string, request: Uint8Array<ArrayBuffer>) => {
    const code = refused.get(method);
    const message = code !== undefined ? undefined : method === METHODS.list ? list(request) : status(request);
    const head = { ":status": 200, "content-type": "application/grpc" };
    if (message === undefined) {
      const text = encodeStatusMessage("not here");
      stream.respond({ ...head, "grpc-status": String(code ?? STATUS.NOT_FOUND), "grpc-message": text }, {
        endStream: true,
      });
      return;
    }
    stream.respond(head, { waitForTrailers: true });
    stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": String(STATUS.OK) }));
    stream.end(framesOf([message]));
  };

  const server = await startHttp2Server(path, (stream, headers) => {
    const frames = createFrameReader(1 << 20);
    const requests: Uint8Array<ArrayBuffer>[] = [];
    stream.on("data", (bytes: Uint8Array) => requests.push(...frames.push(bytes)));
    // Like a server of grpc-go, which answers a unary call when the request has ended.
    stream.on("end", () => answer(stream, String(headers[":path"]), requests[0] ?? new Uint8Array()));
  });
  return {
    run(...all) {
      sandboxes = all;
    },
    refuse(method, code) {
      if (code === undefined) refused.delete(METHODS[method]);
      else refused.set(METHODS[method], code);
    },
    asked,
    alone: server.alone,
    close: server.close,
  };
}
