/**
 * Code of a worker that reports its permissions at start, throws on a delta, and loops forever on a delta of revision 0
 * and on a cleanup.
 */
import { connectToMain } from "../../../workers/family.ts";

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

/** The worker's permissions and the operations that succeed, as text for the test. */
function rights(): string {
  const granted = PERMISSIONS.filter((one) => Deno.permissions.querySync(one).state === "granted").map(({ name }) =>
    name
  );
  const attempts: Readonly<Record<string, () => unknown>> = {
    "read /etc/hostname": () => Deno.readTextFileSync("/etc/hostname"),
    listen: () => Deno.listen({ hostname: "127.0.0.1", port: 0 }),
    run: () => new Deno.Command("true").spawn(),
  };
  const succeeded = Object.keys(attempts).filter((name) => {
    try {
      attempts[name]!();
      return true;
    } catch (error) {
      return !(error instanceof Deno.errors.NotCapable);
    }
  });
  return [...granted, ...succeeded].join(" ");
}

function reportFailure(reason: string): void {
  post({ type: "setup-failed", reason, unsupported: false });
}

/** The waits leave the processor to other tests: Deno ends a loop 2 s after terminate(). */
function loopForever(): never {
  const unchanged = new Int32Array(new SharedArrayBuffer(4));
  for (;;) Atomics.wait(unchanged, 0, 0, 10);
}

const itself = () => ({ entry: import.meta.url, name: "test", tools: [] });

const { post } = connectToMain(itself, (message) => {
  if (message.type === "start") reportFailure(`may: ${rights()}`);
  if (message.type === "ping") post({ type: "pong" });
  if (message.type === "sync" && message.delta.revision === 0) loopForever();
  if (message.type === "sync") throw new Error("a bug in the worker");
  if (message.type === "cleanup") {
    reportFailure("looping");
    loopForever();
  }
});
