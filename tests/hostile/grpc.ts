/** A hostile gRPC server, and hostile gRPC clients. */
import type { ServerHttp2Stream } from "node:http2";
import { METHODS } from "../../kpng/messages/mod.ts";
import { createGlobalView } from "../../kpng/views/global_view.ts";
import { difference, RESET, SYNC } from "../../kpng/views/operations.ts";
import { framesOf } from "../../kpng/transport/mod.ts";
import { startFakeApiServer } from "../fakes/api_server.ts";
import { service } from "../fakes/cluster_objects.ts";
import { startHttp2Server } from "../fakes/http2_server.ts";
import { callFrames, callHeaders, FLAG, frame, joined, settings, TYPE, uint32, zeros } from "../fakes/raw_http2.ts";
import { hostileService } from "./objects.ts";
import type { HostileScenario, Target } from "./scenario.ts";

/** A round with the services 1 to `count`. */
function roundOf(count: number): Uint8Array {
  const view = createGlobalView({ extended: true, nodeName: undefined });
  const services = Array.from({ length: count }, (_, i) => {
    const name = `web-${i + 1}`;
    const spec = {
      clusterIPs: [`10.96.0.${i + 1}`],
      ports: [{ name: "http", protocol: "tcp", port: 80, nodePort: 0 }],
    } as const;
    const after = { namespace: "default", name, service: service(`default/${name}`, spec), slices: [] };
    return { before: undefined, after };
  });
  return framesOf([RESET, ...difference({ services, scoped: [] }, view), SYNC]);
}

/** Writes a piece as often as the client reads it. */
function flood(stream: ServerHttp2Stream, piece: Uint8Array): void {
  const write = () => {
    while (!stream.destroyed && stream.write(piece));
  };
  stream.on("drain", write);
  write();
}

async function grpcServer(answer: (stream: ServerHttp2Stream) => void): Promise<Target> {
  let count = 1, isHostile = false;
  const server = await startHttp2Server(0, (stream) => {
    stream.respond({ ":status": 200, "content-type": "application/grpc" });
    stream.once("data", () => isHostile ? answer(stream) : stream.write(roundOf(count)));
  });
  return {
    flags: ["--source", `grpc://127.0.0.1:${server.port}`],
    attack() {
      isHostile = true;
      server.drop();
    },
    relent() {
      isHostile = false;
      count = 2;
      server.drop();
    },
    close: server.close,
  };
}

const ANSWERS: Readonly<Record<string, readonly [answer: (stream: ServerHttp2Stream) => void, says?: RegExp]>> = {
  "a message of 4 GiB": [
    (stream) => flood(stream, joined(Uint8Array.of(0), uint32(0xffffffff), zeros(65_536))),
    /more than the limit of/,
  ],
  "a compressed message": [(stream) => flood(stream, joined(Uint8Array.of(1), uint32(9), zeros(9))), /compressed/],
  "bytes that are no message": [
    (stream) => stream.write(framesOf([new Uint8Array(1000).fill(255)])),
    /source-unreachable/,
  ],
  "empty messages without an end": [(stream) => flood(stream, zeros(65_535))],
  "half a message": [(stream) => stream.end(joined(Uint8Array.of(0), uint32(100), zeros(9)))],
  "an unknown flag": [(stream) => stream.write(joined(Uint8Array.of(7), uint32(9), zeros(9))), /unknown flag/],
  "an end at once": [(stream) => stream.end()],
  "a reset": [(stream) => stream.close(2), /source-unreachable/],
  "silence": [() => {}],
};

/** Sends bytes on connections, and reads nothing. */
function clients(connections: number, bytes: () => Uint8Array): Target {
  const api = startFakeApiServer();
  api.apply(hostileService(1));
  const data = bytes();
  const open: Deno.Conn[] = [];
  const send = async (port: number) => {
    try {
      const connection = await Deno.connect({ hostname: "127.0.0.1", port });
      open.push(connection);
      for (let at = 0; at < data.length;) at += await connection.write(data.subarray(at));
    } catch {
      // The server may close it.
    }
  };
  const closeAll = () => {
    for (const connection of open.splice(0)) connection.close();
  };
  return {
    flags: ["--master", api.url],
    attack(port) {
      for (let i = 0; i < connections; i++) void send(port);
    },
    relent() {
      closeAll();
      api.apply(hostileService(2));
    },
    async close() {
      closeAll();
      await api.close();
    },
  };
}

const PREFACE = new TextEncoder().encode("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
const call = (stream: number, message: Uint8Array) =>
  joined(
    frame(TYPE.headers, FLAG.endHeaders, stream, callHeaders(METHODS.global)),
    frame(TYPE.data, 0, stream, message),
  );
const many = (count: number, bytes: (index: number) => Uint8Array) =>
  joined(...Array.from({ length: count }, (_, i) => bytes(i)));

const REQUESTS: Readonly<Record<string, readonly [connections: number, bytes: () => Uint8Array]>> = {
  "a request of 4 GiB": [
    20,
    () => joined(PREFACE, settings(), call(1, joined(Uint8Array.of(0), uint32(0xffffffff), zeros(10_000)))),
  ],
  "no HTTP/2": [50, () => many(1000, () => new TextEncoder().encode("GET / HTTP/1.1\r\n\r\n"))],
  "nothing": [200, () => zeros(0)],
  "calls that are reset at once": [
    10,
    () =>
      joined(
        PREFACE,
        settings(),
        many(2000, (i) => joined(callFrames(2 * i + 1, METHODS.global), frame(TYPE.reset, 0, 2 * i + 1, uint32(8)))),
      ),
  ],
  "frames on stream 0": [
    20,
    () => joined(PREFACE, settings(), frame(TYPE.data, 0, 0, zeros(100)), frame(TYPE.headers, FLAG.endHeaders, 0)),
  ],
  "headers that are no HPACK": [
    20,
    () => joined(PREFACE, settings(), frame(TYPE.headers, FLAG.endHeaders, 1, new Uint8Array(100).fill(255))),
  ],
  "a frame of 16 MiB": [20, () => joined(PREFACE, settings(), new Uint8Array(3).fill(255), zeros(6), zeros(1 << 20))],
  "windows that overflow": [
    20,
    () => joined(PREFACE, settings(), many(3, () => frame(TYPE.windowUpdate, 0, 0, uint32(0x7fffffff)))),
  ],
  "calls of other methods": [20, () => joined(PREFACE, settings(), many(50, (i) => callFrames(2 * i + 1, "/x.Y/Z")))],
  "pings without an end": [
    10,
    () => joined(PREFACE, settings(), many(10_000, () => frame(TYPE.ping, 0, 0, zeros(8)))),
  ],
};

/** The ways of a gRPC server and of its clients. */
export const grpcScenarios: readonly HostileScenario[] = [
  ...Object.entries(ANSWERS).map(([name, [answer, says]]) => ({
    name: `gRPC server: ${name}`,
    says,
    start: () => grpcServer(answer),
  })),
  ...Object.entries(REQUESTS).map(([name, [connections, bytes]]) => ({
    name: `gRPC clients: ${name}`,
    start: () => clients(connections, bytes),
  })),
];
