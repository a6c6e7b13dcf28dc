/** The kubeconfig command against an API server that keeps the objects it receives. */
import assert from "node:assert/strict";
import { type FakeApiServer, type SeenRequest, startFakeApiServer, statusResponse } from "../../../fakes/api_server.ts";
import { invoke } from "./invoke.ts";

const CA = btoa("-----BEGIN CERTIFICATE-----\n");

interface Cluster {
  readonly api: FakeApiServer;
  readonly folder: string;
  /** Stored objects by path. */
  readonly objects: Map<string, Record<string, unknown>>;
  /** Requests that the server refuses with 403. */
  readonly forbidden: Set<string>;
  run(...args: readonly string[]): Promise<{ status: number; stdout: string }>;
}

/** Answers as an API server with a namespace kube-system and a controller that fills Secrets at the second read. */
function answer(objects: Map<string, Record<string, unknown>>, forbidden: Set<string>) {
  let reads = 0;
  return ({ verb, path, query, body }: SeenRequest): Response | undefined => {
    const isDry = query.dryRun === "All";
    if (forbidden.has(path.split("/").at(verb === "patch" ? -2 : -1)!)) {
      return statusResponse(403, "Forbidden", "User cannot do that");
    }
    const namespace = /\/namespaces\/([^/]+)\//.exec(path)?.[1] ?? "kube-system";
    if (namespace !== "kube-system" && !objects.has(`/api/v1/namespaces/${namespace}`)) {
      return statusResponse(404, "NotFound", "namespaces not found");
    }
    if (path.endsWith("/token")) {
      return Response.json({ status: { token: "short", expirationTimestamp: "2027-01-01T00:00:00Z" } }, {
        status: 201,
      });
    }
    if (verb === "list" || verb === "get") {
      const object = objects.get(path);
      if (object === undefined) return statusResponse(404, "NotFound", "not found");
      return Response.json(
        !path.includes("/secrets/") || reads++ === 0
          ? object
          : { ...object, data: { token: btoa("long"), "ca.crt": CA } },
      );
    }
    const object = JSON.parse(body);
    const place = verb === "patch" ? path : `${path}/${object.metadata.name}`;
    if (verb === "patch" && !objects.has(place)) return statusResponse(404, "NotFound", "not found");
    if (!isDry) objects.set(place, object);
    return Response.json(object, { status: verb === "patch" ? 200 : 201 });
  };
}

async function inCluster(test: (cluster: Cluster) => Promise<void>): Promise<void> {
  const api = startFakeApiServer();
  const folder = await Deno.makeTempDir();
  const objects = new Map<string, Record<string, unknown>>();
  const forbidden = new Set<string>();
  api.fault(answer(objects, forbidden));
  const admin = {
    "current-context": "a",
    contexts: [{ name: "a", context: { cluster: "c", user: "u" } }],
    clusters: [{ name: "c", cluster: { server: api.url } }],
    users: [{ name: "u", user: { token: "admin" } }],
  };
  await Deno.writeTextFile(`${folder}/admin.conf`, JSON.stringify(admin));
  const run = (...args: readonly string[]) => invoke(["kubeconfig", "--kubeconfig", `${folder}/admin.conf`, ...args]);
  try {
    await test({ api, folder, objects, forbidden, run });
  } finally {
    await api.close();
    await Deno.remove(folder, { recursive: true });
  }
}

const RBAC = "/apis/rbac.authorization.k8s.io/v1";
const ACCOUNT = "/api/v1/namespaces/kube-system/serviceaccounts/sluice";
const SECRET = "/api/v1/namespaces/kube-system/secrets/sluice-token";

Deno.test("kubeconfig creates the identity and writes a kubeconfig that only its owner can read", () =>
  inCluster(async ({ api, folder, objects, run }) => {
    const { status, stdout } = await run("--output", `${folder}/out`);
    assert.equal(status, 0);
    assert.deepEqual([...objects.keys()], [
      ACCOUNT,
      `${RBAC}/clusterroles/sluice`,
      `${RBAC}/clusterrolebindings/sluice`,
      SECRET,
    ]);
    const binding = objects.get(`${RBAC}/clusterrolebindings/sluice`) as { subjects: unknown; roleRef: unknown };
    assert.deepEqual(binding.subjects, [{ kind: "ServiceAccount", name: "sluice", namespace: "kube-system" }]);
    assert.match(stdout, /^created {2}ServiceAccount kube-system\/sluice$/m);
    assert.match(stdout, /token lasts until Secret kube-system\/sluice-token is deleted/);
    assert.equal((await Deno.stat(`${folder}/out`)).mode! & 0o777, 0o600);
    const text = await Deno.readTextFile(`${folder}/out`);
    assert.match(text, /^ +token: long$/m);
    assert.ok(text.includes(`server: ${api.url}\n`));
    const { readKubeconfig } = await import("../../../../sources/kubernetes/kubeconfig.ts");
    const access = await readKubeconfig(`${folder}/out`);
    assert.deepEqual(access.token, { text: "long" });
    assert.equal(access.server, api.url);

    const again = await run("--output", `${folder}/out`);
    assert.match(
      again.stdout,
      /^updated {2}ClusterRoleBinding sluice$/m,
      "a repetition updates the objects and the file",
    );
    assert.doesNotMatch(again.stdout, /^created/m);
  }));

Deno.test("the service account, its Secret and its binding are in the namespace of the flag", () =>
  inCluster(async ({ folder, objects, run }) => {
    objects.set("/api/v1/namespaces/edge", {});
    await run("--output", `${folder}/out`, "--namespace", "edge");
    assert.ok(objects.has("/api/v1/namespaces/edge/serviceaccounts/sluice"));
    assert.ok(objects.has("/api/v1/namespaces/edge/secrets/sluice-token"));
    assert.ok(!objects.has(ACCOUNT));
    const binding = objects.get(`${RBAC}/clusterrolebindings/sluice`) as { subjects: unknown };
    assert.deepEqual(binding.subjects, [{ kind: "ServiceAccount", name: "sluice", namespace: "edge" }]);
  }));

Deno.test("with a site, the service account may write the site's Lease and read its members, which are created", () =>
  inCluster(async ({ folder, objects, run }) => {
    const config = `${folder}/config.yaml`;
    const kind = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
    await Deno.writeTextFile(config, `${kind}site: { name: shop }\n`);
    const name = "sluice-site-shop";
    const objectAt = (group: string, resource: string) =>
      objects.get(`${group}/namespaces/sluice-sites/${resource}/${name}`) as Record<string, unknown> | undefined;
    const members = () => (objectAt("/api/v1", "configmaps") as { data: { members: string } }).data.members;

    const dry = await run("--output", `${folder}/out`, "--site", "shop", "--site-members", "b,a", "--dry-run");
    assert.match(dry.stdout, new RegExp(`^would create +Lease sluice-sites/${name}$`, "m"));
    assert.equal(objects.size, 0);

    for (const args of [["--site", "shop"], ["--config", config]]) {
      await run("--output", `${folder}/out`, ...args, "--site-members", "b,a b");
      assert.equal(members(), "a\nb");
      assert.ok(objects.has("/api/v1/namespaces/sluice-sites"));
      assert.equal(objectAt("/apis/coordination.k8s.io/v1", "leases")!.spec, undefined, "a holder is not replaced");
      assert.deepEqual(objectAt(RBAC, "roles")!.rules, [
        { apiGroups: ["coordination.k8s.io"], resources: ["leases"], resourceNames: [name], verbs: ["get", "patch"] },
        { apiGroups: [""], resources: ["configmaps"], resourceNames: [name], verbs: ["get"] },
      ]);
      const { subjects } = objectAt(RBAC, "rolebindings")!;
      assert.deepEqual(subjects, [{ kind: "ServiceAccount", name: "sluice", namespace: "kube-system" }]);
      assert.ok(![...objects.keys()].some((path) => path.includes("store-12")));
    }
    await run("--output", `${folder}/out`, "--site", "shop");
    assert.equal(members(), "a\nb", "the members stay");
  }));

Deno.test("a site without members, or with a name that no Node has, is refused before anything is created", () =>
  inCluster(async ({ folder, objects, run }) => {
    const refusals: readonly [readonly string[], RegExp][] = [
      [[], /site shop has no members: name its nodes with --site-members/],
      [["--site-members", " , "], /site shop has no members/],
      [["--site-members", "a,B!"], /--site-members: "B!" is not the name of a Node/],
    ];
    for (const [args, expected] of refusals) {
      await assert.rejects(run("--output", `${folder}/out`, "--site", "shop", ...args), expected);
    }
    assert.equal(objects.size, 0);
  }));

Deno.test("a dry run lets the API server check the requests and changes nothing", () =>
  inCluster(async ({ api, folder, objects, run }) => {
    const { stdout } = await run("--output", `${folder}/out`, "--dry-run");
    assert.match(stdout, /^would create +ClusterRole sluice$/m);
    assert.match(stdout, new RegExp(`^would write +${folder}/out, for ${api.url}$`, "m"));
    assert.equal(objects.size, 0);
    assert.ok(api.requests.every(({ query }) => query.dryRun === "All"));
    await assert.rejects(Deno.stat(`${folder}/out`), Deno.errors.NotFound);
  }));

Deno.test("missing rights are all named, and nothing is created", () =>
  inCluster(async ({ folder, objects, forbidden, run }) => {
    forbidden.add("clusterroles").add("secrets");
    const error = await run("--output", `${folder}/out`).then(() => "", ({ message }: Error) => message);
    assert.match(
      error,
      /^ClusterRole sluice: .*needs the verb "patch" on "clusterroles\.rbac\.authorization\.k8s\.io"$/m,
    );
    assert.match(error, /^Secret kube-system\/sluice-token: .*Forbidden/m);
    assert.doesNotMatch(error, /system:node-proxier/, "that role would not help");
    assert.equal(objects.size, 0);
  }));

Deno.test("a token with a lifetime needs no Secret", () =>
  inCluster(async ({ api, folder, objects, run }) => {
    const { stdout } = await run("--output", `${folder}/out`, "--token-duration=24h");
    assert.ok(!objects.has(SECRET));
    const request = api.requests.find(({ path }) => path === `${ACCOUNT}/token`)!;
    assert.equal(JSON.parse(request.body).spec.expirationSeconds, 86_400);
    assert.match(await Deno.readTextFile(`${folder}/out`), /token: short$/m);
    assert.match(stdout, /expires at 2027-01-01T00:00:00Z/);
  }));

Deno.test("the kubeconfig goes to standard output with --output -", () =>
  inCluster(async ({ run }) => {
    const { stdout } = await run("--output", "-");
    assert.match(stdout, /^apiVersion: v1\n/);
    assert.doesNotMatch(stdout, /created|Next/);
  }));

Deno.test("bad input is refused before the API server is asked", () =>
  inCluster(async ({ api, folder, run }) => {
    assert.equal((await invoke(["kubeconfig"])).status, 2);
    assert.equal((await run("--namespace", "../x")).status, 2);
    assert.equal((await run("--token-duration=1m")).status, 2);
    await assert.rejects(run("--output", `${folder}/admin.conf`), /exists and is not a kubeconfig of this command/);
    assert.equal(api.requests.length, 0);
    await assert.rejects(run("--output", `${folder}/out`, "--namespace", "nowhere"), /there is no namespace nowhere/);
  }));

Deno.test("the permission for the node condition is granted only if it is asked for", () =>
  inCluster(async ({ folder, objects, run }) => {
    const resources = () => {
      const { rules } = objects.get(`${RBAC}/clusterroles/sluice`) as {
        rules: { resources: string[]; verbs: string[] }[];
      };
      return rules.map(({ resources, verbs }) => `${resources} ${verbs}`);
    };
    await run("--output", `${folder}/out`);
    const without = resources();
    assert.equal(without.some((rule) => rule.startsWith("nodes/status")), false);
    await run("--output", `${folder}/out`, "--node-condition");
    assert.deepEqual(resources(), [...without, "nodes/status patch"]);
  }));
