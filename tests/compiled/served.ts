/** `sluice serve` with a watch that receives every change and one that receives nothing, from clients that only answer. */
import { METHODS, WATCH_REQUEST } from "../../kpng/messages/mod.ts";
import { framesOf } from "../../kpng/transport/mod.ts";
import { waitFor } from "../chaos/wait.ts";
import { connectKpngClient, openGrpcCall } from "../fakes/kpng.ts";
import { reservePort } from "../fakes/sockets.ts";
import type { CompiledLab } from "./lab.ts";
import { type Held, watchedAgain } from "./held.ts";

const HEALTH_WATCH = "/grpc.health.v1.Health/Watch";
const READY_MS = 60_000;

/** Starts it with this number of workers. */
export async function startServed(lab: CompiledLab, name: string, workers: number): Promise<Held> {
  const id = `serve-${workers}`;
  const port = reservePort();
  const server = await lab.certificate(id, "127.0.0.1");
  const { pid, log } = lab.start(id, [
    ...["serve", "--listen", `tcp://127.0.0.1:${port}`, "--serve-workers", `${workers}`],
    ...["--healthz-bind-address", "", "--metrics-bind-address", ""],
    ...["--listen-tls-ca", lab.ca, "--listen-tls-crt", server.crt, "--listen-tls-key", server.key],
  ]);
  await waitFor(`${name} to listen`, READY_MS, () => log().includes("serving"), 100);
  const tls = { ca: lab.authority.cert, ...await lab.authority.issue("watcher") };
  const ended: string[] = [];

  let rounds = 0;
  const busy = connectKpngClient(port, METHODS.global, { tls });
  const request = WATCH_REQUEST.encode({});
  const watching = async () => {
    for (;;) {
      await busy.round(request);
      rounds++;
    }
  };
  watching().catch((error: Error) => ended.push(`the busy watch ended: ${error.message}`));

  let answers = 0;
  const idle = openGrpcCall(port, HEALTH_WATCH, { tls });
  idle.session.on("error", (error: Error) => ended.push(`the idle connection failed: ${error.message}`));
  idle.session.on("close", () => ended.push("the idle connection was closed"));
  idle.stream.on("data", () => answers++);
  idle.stream.write(framesOf([new Uint8Array()]));

  await waitFor(`${name} to answer`, READY_MS, () => rounds > 0 && answers > 0, 100);
  const [roundsBefore, watchesBefore] = [rounds, lab.watches(id)];
  return {
    processes: { [id]: pid },
    *problems() {
      yield* ended;
      for (const path of watchedAgain(watchesBefore, lab.watches(id))) yield `it watched ${path} again`;
      if (rounds === roundsBefore) yield "the busy watch received no change";
    },
  };
}
