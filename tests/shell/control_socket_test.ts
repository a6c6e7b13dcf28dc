/** The control socket from a program with another environment. */
import assert from "node:assert/strict";
import { createAnswers } from "../../answers/mod.ts";
import { connectToProxy, serveControlSocket } from "../../answers/control/mod.ts";
import { listenOnControlSocket } from "../../answers/control/socket.ts";
import type { NodeView } from "../../answers/status/mod.ts";
import { silentLogger } from "../../platform/log.ts";
import { fakeAnswerBasis, HERE } from "../fakes/answer_basis.ts";
import { createFakeClock } from "../fakes/clock.ts";
import { inTime } from "../fakes/wait.ts";
import { systemClock } from "../../platform/clock.ts";

const STATUS = { node: HERE, problems: [] } as unknown as NodeView;

Deno.test("the socket is reached whatever the environment says of proxies, and without certificates on the system", async () => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/control.sock`;
  const end = new AbortController();
  const served = serveControlSocket({
    listener: await listenOnControlSocket(path),
    answers: () =>
      Promise.resolve({
        ...createAnswers(fakeAnswerBasis([])),
        status: () => Promise.resolve(STATUS),
        events: () => Promise.reject(new Error("not asked")),
      }),
    clock: createFakeClock(),
    logger: silentLogger,
    signal: end.signal,
  });
  const client = new URL("../../answers/control/client.ts", import.meta.url);
  const script = `import { connectToProxy } from "${client}";
    import { systemClock as clock } from "${new URL("../../platform/clock.ts", import.meta.url)}";
    console.log(JSON.stringify(await (await connectToProxy(${JSON.stringify(path)}, { clock })).status()));`;
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--quiet", "--unstable-net", script],
    env: { NO_PROXY: "*", DENO_TLS_CA_STORE: "system", SSL_CERT_FILE: "/nowhere", SSL_CERT_DIR: "/nowhere" },
  }).output();
  end.abort();
  await served;
  await Deno.remove(folder, { recursive: true });
  assert.deepEqual(JSON.parse(new TextDecoder().decode(stdout)), STATUS);
});

/** Runs `test` while a stopped process holds a control socket. */
async function withStoppedProxy(test: (path: string, pid: number) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/control.sock`;
  const socket = new URL("../../answers/control/socket.ts", import.meta.url);
  const script = `import { listenOnControlSocket } from "${socket}";
    const listener = await listenOnControlSocket(${JSON.stringify(path)});
    console.log("listens");
    await listener.accept();`;
  const args = ["eval", "--quiet", "--unstable-net", script];
  const proxy = new Deno.Command(Deno.execPath(), { args, stdout: "piped" }).spawn();
  try {
    const output = proxy.stdout.getReader();
    await output.read();
    await output.cancel();
    proxy.kill("SIGSTOP");
    await test(path, proxy.pid);
  } finally {
    proxy.kill("SIGKILL");
    await proxy.status;
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("a question to a stopped proxy ends with the time or the signal, and names the process", () =>
  withStoppedProxy(async (path, pid) => {
    const hurried = await connectToProxy(path, { clock: systemClock, timeoutMs: 50 });
    await assert.rejects(hurried.status(), {
      name: "SilentProxyError",
      exitStatus: 3,
      message: new RegExp(`^the proxy \\(pid ${pid}\\) does not answer within 0.05 s`),
    });
    const clock = createFakeClock(), usual = (await connectToProxy(path, { clock })).status();
    clock.advance(5_000);
    await assert.rejects(inTime("the end of the time", usual), /does not answer within 5 s/);
    const interrupted = new AbortController();
    const patient = await connectToProxy(path, { clock: systemClock, signal: interrupted.signal });
    const asked = patient.events(0);
    interrupted.abort(new Error("stopped by SIGINT"));
    await assert.rejects(asked, /stopped by SIGINT/);
  }));
