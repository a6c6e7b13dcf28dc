/** Validates the manifests of deploy/, and the objects that Sluice creates, against every recorded version of Kubernetes. */
import assert from "node:assert/strict";
import { FIELDS } from "../../../config/kube_proxy_configuration.ts";
import { createEventRecorder } from "../../../observe/events.ts";
import { silentLogger } from "../../../platform/log.ts";
import { identityObjects, siteObjects, tokenSecret } from "../../../sources/identity/mod.ts";
import { API_VERSIONS } from "../../fakes/api_shapes.ts";
import { type ApiObject, objectsIn, validationOf } from "../../fakes/api_validation.ts";
import { createFakeClock } from "../../fakes/clock.ts";

const DEPLOY = new URL("../../../deploy/", import.meta.url);

/** YAML files of deploy/ that are not manifests. */
const NO_MANIFESTS = ["alerts.yaml", "config.yaml", "kustomization.yaml"];

function read(name: string): string {
  return Deno.readTextFileSync(new URL(name, DEPLOY));
}

function manifestsOf(folder: string): readonly ApiObject[] {
  const names = [...Deno.readDirSync(new URL(folder, DEPLOY))].map(({ name }) => name).sort();
  return names.filter((name) => name.endsWith(".yaml") && !NO_MANIFESTS.includes(name)).flatMap((name) =>
    objectsIn(read(`${folder}${name}`))
  );
}

/** The Event that reports a problem. */
async function event(): Promise<ApiObject> {
  const { promise, resolve } = Promise.withResolvers<ApiObject>();
  const recorder = createEventRecorder({
    nodeName: "node-1",
    clock: createFakeClock(),
    signal: new AbortController().signal,
    random: () => 0.5,
    uidOf: () => Promise.resolve("uid"),
    isRefusal: () => false,
    isGone: () => false,
    logger: silentLogger,
    send: ({ object }) => {
      resolve(object as ApiObject);
      return Promise.resolve();
    },
  });
  recorder.record("Warning", "Problem", "about", "a message", undefined);
  return await promise;
}

async function created(): Promise<readonly ApiObject[]> {
  const objects: readonly unknown[] = [
    ...await identityObjects(read("rbac.yaml"), "sluice-system"),
    ...await siteObjects(read("sites.yaml"), "sluice-system", {
      name: "north",
      leaseNamespace: "sluice-sites",
      members: ["a", "b"],
    }),
    tokenSecret("kube-system"),
    JSON.parse(JSON.stringify(await event())),
  ];
  return objects as readonly ApiObject[];
}

for (const version of API_VERSIONS) {
  Deno.test(`the manifests are valid in Kubernetes ${version}, without unknown fields`, async () => {
    const validate = validationOf(version);
    const manifests = manifestsOf("");
    assert.ok(manifests.length > 10);
    assert.deepEqual([...manifests, ...manifestsOf("example/"), ...await created()].flatMap(validate), []);
  });
}

Deno.test("validation reports unknown fields, wrong types and missing fields", () => {
  const validate = validationOf(API_VERSIONS.at(-1)!);
  const daemonSet = (container: Record<string, unknown>): ApiObject & Record<string, unknown> => ({
    apiVersion: "apps/v1",
    kind: "DaemonSet",
    metadata: { name: "sample" },
    spec: { selector: {}, template: { spec: { containers: [{ name: "sluice", ...container }] } } },
  });
  const problem = (container: Record<string, unknown>) => validate(daemonSet(container)).join();
  assert.equal(problem({}), "");
  assert.match(problem({ securtyContext: {} }), /containers\/0: must NOT have additional properties.*securtyContext/);
  assert.match(problem({ args: "--config" }), /containers\/0\/args: must be array/);
  assert.match(problem({ env: [{ value: "x" }] }), /env\/0: must have required property 'name'/);
  assert.match(validate({ apiVersion: "apps/v1", kind: "Daemon" }).join(), /apps\/v1 Daemon: not in the recorded API/);
});

Deno.test("the kustomization has only files of deploy/, and no fields that kustomize does not know", () => {
  const [kustomization] = objectsIn(read("kustomization.yaml")) as readonly (ApiObject & { resources: string[] })[];
  const { apiVersion, kind, resources, ...others } = kustomization!;
  assert.deepEqual({ apiVersion, kind, others }, {
    apiVersion: "kustomize.config.k8s.io/v1beta1",
    kind: "Kustomization",
    others: {},
  });
  assert.deepEqual(resources.filter((name) => objectsIn(read(name)).length === 0), []);
});

/** Fields that KubeProxyConfiguration v1alpha1 once had, which a ConfigMap may have kept. kube-proxy ignores them with a warning. */
const REMOVED = ["resourceContainer", "udpIdleTimeout"];

Deno.test("the chart accepts every field of the configuration, those that older kube-proxies had, and no other", () => {
  const { properties: { config } } = JSON.parse(read("helm/sluice/values.schema.json"));
  assert.equal(config.additionalProperties, false);
  assert.deepEqual(
    Object.keys(config.properties).sort(),
    [...REMOVED, "apiVersion", "kind", ...Object.keys(FIELDS)].sort(),
  );
  for (const field of REMOVED) assert.match(config.properties[field].description, /ignored/);
});
