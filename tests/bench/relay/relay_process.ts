/** The process of the measured relay: a worker that may use the network and nothing else. Prints its ports. */
const endpoint = Deno.args[0]!;
new Worker(new URL("./relay_worker.ts", import.meta.url), {
  type: "module",
  name: endpoint,
  deno: { permissions: { net: true, read: false, write: false, run: false, env: false, sys: false, ffi: false } },
});
