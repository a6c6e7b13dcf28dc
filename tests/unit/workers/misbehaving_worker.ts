/** The code of a worker that tells its permissions when it starts, throws over a delta, and loops over a cleanup. */
import type { FromWorker, ToWorker } from "../../../workers/protocol.ts";

const scope = globalThis as unknown as {
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
  postMessage(message: FromWorker): void;
};

const PERMISSIONS: readonly Deno.PermissionDescriptor[] = [
  { name: "env" },
  { name: "ffi" },
  { name: "import" },
  { name: "net", host: "127.0.0.1" },
  { name: "read" },
  { name: "run" },
  { name: "sys" },
  { name: "write" },
];

function say(reason: string): void {
  scope.postMessage({ type: "setup-failed", reason, unsupported: false });
}

scope.onmessage = ({ data }) => {
  if (data.type === "start") {
    const granted = PERMISSIONS.filter((one) => Deno.permissions.querySync(one).state === "granted");
    say(`may: ${granted.map(({ name }) => name).join(" ")}`);
  }
  if (data.type === "ping") scope.postMessage({ type: "pong" });
  if (data.type === "sync") throw new Error("a bug in the worker");
  if (data.type === "cleanup") {
    say("looping");
    for (;;);
  }
};
