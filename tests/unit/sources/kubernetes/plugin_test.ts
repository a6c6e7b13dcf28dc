import assert from "node:assert/strict";
import { clientNodePlugins } from "../../../../core/sources/kubernetes/plugin.ts";

const KUBECONFIG = JSON.stringify({
  apiVersion: "v1",
  kind: "Config",
  "current-context": "c",
  clusters: [{ name: "c", cluster: { server: "https://192.0.2.1" } }],
  contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
  users: [{ name: "u", user: { exec: { command: "my-login", apiVersion: "client.authentication.k8s.io/v1" } } }],
});

Deno.test({
  name: "a plugin that this program may not start is an error that says so, and how to change it",
  permissions: { read: true, env: true, sys: true, run: false },
  async fn() {
    const plugin = clientNodePlugins({ path: "/etc/kubeconfig", text: KUBECONFIG });
    await assert.rejects(
      plugin.credentials(new AbortController().signal),
      /"my-login" of user "u" in \/etc\/kubeconfig is none .*EXEC_PLUGINS=my-login/,
    );
  },
});
