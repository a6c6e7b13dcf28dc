/** The API server's credentials appear in no output of a proxy. */
import assert from "node:assert/strict";
import { connectToProxy } from "../../../answers/control/client.ts";
import { listenOnControlSocket } from "../../../answers/control/socket.ts";
import { systemClock } from "../../../platform/clock.ts";
import { createLogger } from "../../../platform/log.ts";
import { type FakeApiServer, startFakeApiServer, statusResponse } from "../../fakes/api_server.ts";
import { withWholeProxy } from "../../fakes/whole_proxy.ts";
import { until } from "../../fakes/wait.ts";

const TOKEN = "s3cr3t-t0ken-of-the-node";
const PASSWORD = "s3cr3t-passw0rd";
const PATHS = ["", "live", "metrics", "metrics/slis", "configz", "flagz", "statusz", "healthz", "proxyMode", "nothing"];

function kubeconfig(server: FakeApiServer, user: Readonly<Record<string, unknown>>): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "c", cluster: { server: server.url } }],
    users: [{ name: "u", user }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x",
  });
}

/** Everything that a proxy with such a user logs or answers, while the API server accepts or refuses it. */
async function allOutput(user: Readonly<Record<string, unknown>>, refuse: boolean): Promise<string> {
  const server = startFakeApiServer();
  const folder = await Deno.makeTempDir();
  let output = "";
  const logger = createLogger({ level: "trace", format: "text", clock: systemClock, write: (line) => output += line });
  Deno.writeTextFileSync(`${folder}/kubeconfig`, kubeconfig(server, user));
  if (refuse) server.fault(({ path }) => statusResponse(path.endsWith("nodes") ? 403 : 401, "Unauthorized", "no"));
  server.apply({ kind: "Node", metadata: { name: "node-1" }, status: {} });
  const path = `${folder}/run/control.sock`;
  const controlSocket = await listenOnControlSocket(path);
  const args = ["--kubeconfig", `${folder}/kubeconfig`, "--hostname-override", "node-1"];
  try {
    await withWholeProxy({ args, logger, controlSocket }, async ({ url, report }) => {
      const isComplete = () => server.requests.some(({ verb }) => verb === "create") && server.requests.length >= 4;
      await until(isComplete);
      report("IPv4", {
        ok: false,
        problems: [{ code: "rules-refused", servicePort: "default/a", message: "refused" }],
      });
      for (const at of PATHS) output += await (await fetch(url + at)).text();
      const proxy = await connectToProxy(path, { clock: systemClock });
      output += JSON.stringify(await proxy.status());
      output += await proxy.services("").then(JSON.stringify, String);
    });
    const sent = server.requests.map(({ headers }) => headers.get("authorization"));
    assert.ok(sent.every((authorization) => authorization !== null), "the credentials were in use");
    output += server.requests.map(({ path, body }) => path + body).join("\n");
    return output;
  } finally {
    await server.close();
    await Deno.remove(folder, { recursive: true });
  }
}

for (const refuse of [false, true]) {
  Deno.test(`credentials are sent only to the API server, ${refuse ? "refused" : "taken"}`, async () => {
    const withToken = await allOutput({ token: TOKEN }, refuse);
    assert.match(withToken, /starting/);
    assert.match(withToken, /"reason":"Starting"/, "events are included");
    assert.match(withToken, /kubeconfig/, "the configuration is included");
    assert.ok(!withToken.includes(TOKEN));
    const withPassword = await allOutput({ username: "node", password: PASSWORD }, refuse);
    assert.ok(!withPassword.includes(PASSWORD) && !withPassword.includes(btoa(`node:${PASSWORD}`)));
  });
}
