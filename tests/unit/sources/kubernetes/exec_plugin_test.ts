import assert from "node:assert/strict";
import type { ProgramCall, ProgramResult } from "../../../../platform/host.ts";
import { execExtension, execPlugin, readExecSection } from "../../../../sources/kubernetes/exec_plugin.ts";
import type { ExecCluster } from "../../../../sources/kubernetes/access.ts";
import { createFakeClock } from "../../../fakes/clock.ts";

const never = new AbortController().signal;
const V1 = "client.authentication.k8s.io/v1";
const CLUSTER: ExecCluster = {
  server: "https://192.0.2.1",
  ca: { text: "AUTHORITY" },
  serverName: "api.example",
  proxyUrl: undefined,
  config: { audience: "a" },
};

function section(exec: Record<string, unknown> = {}) {
  return readExecSection("/etc/kubeconfig", "u", { command: "login", apiVersion: V1, ...exec }, () => CLUSTER);
}

function credential(status: unknown, apiVersion = V1): string {
  return JSON.stringify({ kind: "ExecCredential", apiVersion, status });
}

/** A plugin with these successive answers, and its recorded calls. */
function plugin(exec: Record<string, unknown>, ...answers: (string | Partial<ProgramResult> | Error)[]) {
  const calls: ProgramCall[] = [];
  const clock = createFakeClock();
  const runProgram = (call: ProgramCall) => {
    calls.push(call);
    const answer = answers.shift() ?? new Error("called too often");
    if (answer instanceof Error) return Promise.reject(answer);
    const result = typeof answer === "string" ? { stdout: answer } : answer;
    return Promise.resolve({ exitCode: 0, stdout: "", stderr: "", ...result });
  };
  return { calls, clock, ...execPlugin(section(exec), runProgram, clock) };
}

Deno.test("a plugin is called as in KEP-541, with a deadline", async () => {
  const { calls, credentials } = plugin(
    { args: ["get", 1], env: [{ name: "REGION", value: "x" }], provideClusterInfo: true },
    credential({ token: "t" }),
  );
  assert.deepEqual(await credentials(never), { authorization: "Bearer t" });
  const { env: { KUBERNETES_EXEC_INFO: info, ...env }, ...call } = calls[0]!;
  assert.deepEqual(call, { program: "login", args: ["get", "1"], timeoutMs: 30_000 });
  assert.deepEqual(env, { REGION: "x" });
  assert.deepEqual(JSON.parse(info!), {
    kind: "ExecCredential",
    apiVersion: V1,
    spec: {
      interactive: false,
      cluster: {
        server: "https://192.0.2.1",
        "certificate-authority-data": btoa("AUTHORITY"),
        "tls-server-name": "api.example",
        config: { audience: "a" },
      },
    },
  });
});

Deno.test("a plugin that does not request cluster data gets none", async () => {
  const { calls, credentials } = plugin({}, credential({ token: "t" }));
  await credentials(never);
  assert.deepEqual(JSON.parse(calls[0]!.env.KUBERNETES_EXEC_INFO!).spec, { interactive: false });
});

Deno.test("credentials are used until they expire or are refused, and requested once at a time", async () => {
  const { calls, clock, credentials, forget } = plugin(
    {},
    credential({ token: "1", expirationTimestamp: new Date(createFakeClock().now() + 60_000).toISOString() }),
    credential({ clientCertificateData: "C", clientKeyData: "K" }),
    credential({ token: "3" }),
  );
  assert.deepEqual(await Promise.all([credentials(never), credentials(never)]), [
    { authorization: "Bearer 1" },
    { authorization: "Bearer 1" },
  ]);
  clock.advance(59_000);
  assert.deepEqual(await credentials(never), { authorization: "Bearer 1" });
  assert.equal(calls.length, 1);
  clock.advance(1_000);
  assert.deepEqual(await credentials(never), { certificate: "C", key: "K" });
  clock.advance(10 ** 9);
  assert.deepEqual(await credentials(never), { certificate: "C", key: "K" });
  forget();
  assert.deepEqual(await credentials(never), { authorization: "Bearer 3" });
});

Deno.test("a failure names the plugin, its user and the reason, and the next call retries", async () => {
  const { credentials } = plugin(
    { installHint: "get it at x.example\n" },
    { exitCode: 3, stderr: "no such account\n" },
    new Error("login did not end within 30 s and was killed"),
    credential({ token: "t" }),
  );
  const who = /^Error: the credential plugin "login" of user "u" in \/etc\/kubeconfig failed: /.source;
  await assert.rejects(
    credentials(never),
    new RegExp(`${who}exit status 3: no such account \\(get it at x.example\\)$`),
  );
  await assert.rejects(credentials(never), new RegExp(`${who}login did not end within 30 s and was killed`));
  assert.deepEqual(await credentials(never), { authorization: "Bearer t" });
});

Deno.test("a plugin's output is validated and never quoted", async () => {
  const wrong: readonly (readonly [string, RegExp])[] = [
    ["S3CRET is no JSON", /did not print an ExecCredential in JSON/],
    [JSON.stringify("S3CRET"), /did not print an ExecCredential in JSON/],
    [JSON.stringify({ kind: "S3CRET" }), /is not an ExecCredential/],
    [credential({ token: "S3CRET" }, "client.authentication.k8s.io/v1beta1"), /does not have the requested apiVersion/],
    [credential(undefined), /has no status/],
    [credential({ token: "" }), /neither a token nor a client certificate/],
    [credential({ clientKeyData: "S3CRET" }), /has a client key but no certificate/],
    [credential({ clientCertificateData: "S3CRET" }), /has a client certificate but no key/],
    [credential({ token: "S3CRET", expirationTimestamp: "tomorrow" }), /expirationTimestamp .* is not a time/],
  ];
  for (const [output, message] of wrong) {
    await assert.rejects(plugin({}, output).credentials(never), (error: Error) => {
      assert.match(error.message, message);
      assert.ok(!error.message.includes("S3CRET"), error.message);
      return true;
    });
  }
});

Deno.test("a caller's wait for a plugin ends with the caller's signal", async () => {
  const waiting = execPlugin(section(), () => new Promise(() => {}), createFakeClock());
  const caller = new AbortController();
  const rejected = assert.rejects(waiting.credentials(caller.signal), /enough/);
  caller.abort(new Error("enough"));
  await rejected;
});

Deno.test("the exec section of a kubeconfig is validated; a command with a slash is relative to the file", () => {
  assert.equal(section({ command: "bin/login" }).command, "/etc/bin/login");
  assert.equal(section({ command: "/opt/login" }).command, "/opt/login");
  assert.equal(section({ command: "login" }).command, "login");
  assert.throws(() => section({ command: "" }), /user "u" in \/etc\/kubeconfig: exec has no command/);
  assert.throws(() => section({ apiVersion: "client.authentication.k8s.io/v1alpha1" }), /v1alpha1": must be .*v1 or /);
  assert.throws(() => section({ apiVersion: undefined }), /must be client.authentication.k8s.io\/v1 or /);
  assert.throws(() => section({ interactiveMode: "Always" }), /"login" needs an interactive terminal/);
  const extensions = [{ name: "x", extension: 1 }, { name: "client.authentication.k8s.io/exec", extension: { a: 1 } }];
  assert.deepEqual(execExtension(extensions), { a: 1 });
  assert.equal(execExtension(undefined), undefined);
});
