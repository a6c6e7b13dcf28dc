/** The control socket from a program with another environment. */
import assert from "node:assert/strict";
import { createAnswers } from "../../answers/mod.ts";
import { serveControlSocket } from "../../answers/control/serve.ts";
import { listenOnControlSocket } from "../../answers/control/socket.ts";
import type { ProxyStatus } from "../../answers/control/status.ts";
import { silentLogger } from "../../platform/log.ts";
import { fakeAnswerBasis, HERE } from "../fakes/answer_basis.ts";
import { createFakeClock } from "../fakes/clock.ts";

const STATUS = { node: HERE, problems: [] } as unknown as ProxyStatus;

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
    console.log(JSON.stringify(await (await connectToProxy(${JSON.stringify(path)})).status()));`;
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--quiet", "--unstable-net", script],
    env: { NO_PROXY: "*", DENO_TLS_CA_STORE: "system", SSL_CERT_FILE: "/nowhere", SSL_CERT_DIR: "/nowhere" },
  }).output();
  end.abort();
  await served;
  await Deno.remove(folder, { recursive: true });
  assert.deepEqual(JSON.parse(new TextDecoder().decode(stdout)), STATUS);
});
