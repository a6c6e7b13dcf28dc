/** Recorded messages of KPNG programs, and a client and server to replay them. */
import { type ClientHttp2Session, type ClientHttp2Stream, connect, type OutgoingHttpHeaders } from "node:http2";
import type { Kind, ObjectRef } from "../../core/objects/cluster_object.ts";
import type { SourceSink } from "../../core/objects/source.ts";
import type { WireAddress } from "../../kpng/address/mod.ts";
import { createFrameReader, framesOf } from "../../kpng/transport/grpc.ts";
import {
  ENDPOINT,
  ENDPOINT_INFO,
  NODE_INFO,
  OP_ITEM,
  SERVICE,
  SERVICE_INFO,
  SETS,
} from "../../kpng/messages/messages.ts";
import { startHttp2Server } from "./http2_server.ts";
import type { FakeClock } from "./clock.ts";
import { inTime, passing } from "./wait.ts";
import { sayProblems } from "./problems.ts";

/** One round of a recorded call. */
export interface RecordedRound {
  readonly method: string;
  readonly round: number;
  readonly request: Uint8Array<ArrayBuffer>;
  readonly responses: readonly Uint8Array<ArrayBuffer>[];
}

const FIXTURES = new URL("../fixtures/kpng/", import.meta.url);

/** The recorded calls, each as its rounds in order: two local ones of node-a and node-b, one global one. */
export function recordedCalls(): readonly (readonly RecordedRound[])[] {
  const rounds: readonly { method: string; round: number; request: string; responses: string[] }[] = JSON.parse(
    Deno.readTextFileSync(new URL("capture.json", FIXTURES)),
  );
  const calls: RecordedRound[][] = [];
  for (const { method, round, request, responses } of rounds) {
    if (round === 0) calls.push([]);
    calls.at(-1)!.push({ method, round, request: fromHex(request), responses: responses.map(fromHex) });
  }
  return calls;
}

/** KPNG's source state file, before and after the change between the rounds. */
export function recordedStateFiles(): { readonly before: string; readonly after: string } {
  const before = Deno.readTextFileSync(new URL("state.yaml", FIXTURES));
  const after = before.replace("10.180.1.21", "10.180.1.23").replace(
    /- service:\n {4}namespace: default\n {4}name: sticky[\s\S]*/,
    "",
  );
  return { before, after };
}

function fromHex(hex: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(hex.match(/../g) ?? [], (byte) => parseInt(byte, 16));
}

const MESSAGES = {
  [SETS.ServicesSet]: SERVICE,
  [SETS.EndpointsSet]: ENDPOINT,
  [SETS.GlobalServiceInfos]: SERVICE_INFO,
  [SETS.GlobalEndpointInfos]: ENDPOINT_INFO,
  [SETS.GlobalNodeInfos]: NODE_INFO,
} as const;

/**
 * A round in a form that can be compared: without hashes, which every program makes its own way, and runs of operations
 * of the same kind in one order, because the order of KPNG's own follows from its hashes.
 */
export function comparable(round: readonly Uint8Array<ArrayBuffer>[]): readonly (readonly string[])[] {
  const runs: { readonly kind: string; readonly operations: string[] }[] = [];
  for (const bytes of round) {
    const { set, delete: deleted, ...rest } = OP_ITEM.decode(bytes);
    const ref = set?.ref ?? deleted;
    const kind = `${Object.keys(OP_ITEM.decode(bytes))} ${ref?.set ?? ""}`;
    const path = ref?.path?.replace(/([0-9a-f]{14,15}|[\w-]{16})$/, "#");
    const content = set === undefined
      ? rest
      : { ...MESSAGES[ref!.set as keyof typeof MESSAGES].decode(set.bytes!), hash: undefined };
    if (runs.at(-1)?.kind !== kind) runs.push({ kind, operations: [] });
    runs.at(-1)!.operations.push(`${kind} ${path ?? ""} ${JSON.stringify(content)}`);
  }
  return runs.map(({ operations }) => operations.sort());
}

/** A gRPC call. Its errors show in `status`. */
export interface GrpcCall {
  readonly session: ClientHttp2Session;
  readonly stream: ClientHttp2Stream;
  /** Its gRPC status, as soon as that is received; -1 for a call that is broken off before. */
  readonly status: Promise<number>;
  /** Its headers and trailers, when it has ended. */
  readonly received: Promise<Readonly<Record<string, unknown>>>;
}

/** A client's certificate and key, and the authority of the server's. */
interface ClientTls {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

/** Opens a gRPC call to a server at 127.0.0.1. These headers come in addition to the usual ones, or instead of them. */
export function openGrpcCall(
  port: number,
  method: string,
  { tls, headers }: { readonly tls?: ClientTls; readonly headers?: OutgoingHttpHeaders } = {},
): GrpcCall {
  const session = tls === undefined ? connect(`http://127.0.0.1:${port}`) : connect(`https://127.0.0.1:${port}`, tls);
  session.on("error", () => {});
  const stream = session.request({
    ":method": "POST",
    ":path": method,
    "content-type": "application/grpc",
    te: "trailers",
    ...headers,
  });
  stream.on("error", () => {});
  const status = Promise.withResolvers<number>();
  const ended = Promise.withResolvers<Readonly<Record<string, unknown>>>();
  const received: Record<string, unknown> = {};
  const note = (headers: Readonly<Record<string, unknown>>) => {
    Object.assign(received, headers);
    if (headers["grpc-status"] !== undefined) status.resolve(Number(headers["grpc-status"]));
  };
  stream.on("response", note);
  stream.on("trailers", note);
  const end = () => {
    status.resolve(-1);
    ended.resolve(received);
  };
  stream.on("close", end);
  session.on("close", end);
  return { session, stream, status: status.promise, received: ended.promise };
}

/** A client of the protocol like KPNG's. */
export interface KpngClient {
  /** Sends a request and resolves with the operations up to and including `Sync`. */
  round(request: Uint8Array): Promise<readonly Uint8Array<ArrayBuffer>[]>;
  /** Resolves with the gRPC status that the call ends with. */
  readonly status: Promise<number>;
  close(): void;
}

/** Opens a call as `openGrpcCall` does. */
export function connectKpngClient(...call: Parameters<typeof openGrpcCall>): KpngClient {
  const { session, stream, status } = openGrpcCall(...call);
  const frames = createFrameReader(1 << 20);
  let received: Uint8Array<ArrayBuffer>[] = [];
  let complete: (round: readonly Uint8Array<ArrayBuffer>[]) => void = () => {};
  let fail: (error: Error) => void = () => {};
  stream.on("data", (bytes: Uint8Array) => {
    for (const message of frames.push(bytes)) {
      received.push(message);
      if (OP_ITEM.decode(message).sync === undefined) continue;
      complete(received);
      received = [];
    }
  });
  stream.on("error", (error) => fail(error));
  stream.on("close", () => fail(new Error("the call was broken off")));
  return {
    round(request) {
      if (stream.closed) return Promise.reject(new Error("the call has ended"));
      const round = Promise.withResolvers<readonly Uint8Array<ArrayBuffer>[]>();
      complete = round.resolve;
      fail = round.reject;
      stream.write(framesOf([request]));
      return round.promise;
    },
    status,
    close: () => session.destroy(),
  };
}

/** A server that answers every call with the rounds of a recording, one per request, and then stays silent. */
export interface KpngServer {
  readonly address: WireAddress;
  /** The received requests, in order. */
  readonly requests: readonly Uint8Array<ArrayBuffer>[];
  /** The number of calls of any method. */
  calls(): number;
  /** The number of rounds that each call may receive; more are held back until it grows. */
  allow(rounds: number): void;
  /** Resets all calls. */
  drop(): void;
  close(): Promise<void>;
}

/** Starts a server on 127.0.0.1, at that port if given. */
export async function startKpngServer(call: readonly RecordedRound[], port = 0): Promise<KpngServer> {
  const requests: Uint8Array<ArrayBuffer>[] = [];
  const answerers = new Set<() => void>();
  let allowed = 0, calls = 0;
  const server = await startHttp2Server(port, (stream, headers) => {
    calls++;
    stream.respond({ ":status": 200, "content-type": "application/grpc" });
    const frames = createFrameReader(1 << 20);
    let requested = 0;
    let answered = 0;
    const answer = () => {
      for (; answered < Math.min(requested, allowed); answered++) {
        const round = call[answered];
        if (round !== undefined && headers[":path"] === round.method) stream.write(framesOf(round.responses));
      }
    };
    answerers.add(answer);
    stream.on("data", (bytes: Uint8Array) => {
      const messages = frames.push(bytes);
      requests.push(...messages);
      requested += messages.length;
      answer();
    });
  });
  return {
    address: { kind: "tcp", host: "127.0.0.1", port: server.port },
    requests,
    calls: () => calls,
    allow(rounds) {
      allowed = rounds;
      for (const answer of answerers) answer();
    },
    drop() {
      server.drop();
      answerers.clear();
    },
    close: server.close,
  };
}

/** A sink that records its calls and lets tests wait for them. */
export interface RecordingSink extends SourceSink {
  /** The lines recorded since the last call. */
  take(): readonly string[];
  /** Resolves when a line that includes this text was recorded. */
  until(text: string): Promise<void>;
}

/** A recording sink. With a clock, `until` lets its time pass. */
export function createRecordingSink(clock?: FakeClock): RecordingSink {
  let lines: string[] = [];
  const waiting: { readonly text: string; readonly resolve: () => void }[] = [];
  const add = (line: string) => {
    lines.push(line);
    for (const { text, resolve } of waiting) if (line.includes(text)) resolve();
  };
  const name = ({ kind, namespace, name }: ObjectRef) => `${kind} ${namespace === "" ? "" : `${namespace}/`}${name}`;
  return {
    set(object) {
      add(`set ${name({ namespace: "", ...object } as ObjectRef)} ${JSON.stringify(object)}`);
    },
    delete: (ref) => add(`delete ${name(ref)}`),
    synced: (kind: Kind) => add(`synced ${kind}`),
    reset: (kind: Kind) => add(`reset ${kind}`),
    problems: sayProblems((where, message) => add(`problem ${where}: ${message}`)),
    take() {
      const taken = lines;
      lines = [];
      return taken;
    },
    until(text) {
      const isRecorded = () => lines.some((line) => line.includes(text));
      if (clock !== undefined) return passing(clock, isRecorded);
      if (isRecorded()) return Promise.resolve();
      return inTime(() => `${text}\n${lines.join("\n")}`, new Promise((resolve) => waiting.push({ text, resolve })));
    },
  };
}
