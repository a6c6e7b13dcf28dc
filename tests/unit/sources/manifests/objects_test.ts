import assert from "node:assert/strict";
import { readFile, readObjects } from "../../../../sources/manifests/files.ts";
import { DocumentError } from "../../../../sources/manifests/document.ts";
import { refOf } from "../../../../core/objects/cluster_object.ts";
import { decodeObject } from "../../../../core/objects/mod.ts";

async function names(text: string): Promise<readonly string[]> {
  return (await readObjects(text)).objects.map(({ object }) => {
    const { kind, namespace, name } = refOf(object);
    return `${kind} ${namespace}/${name}`;
  });
}

Deno.test("the default namespace is default, except for cluster-scoped kinds", async () => {
  assert.deepEqual(await names("apiVersion: v1\nkind: Service\nmetadata: {name: web}"), ["Service default/web"]);
  assert.deepEqual(await names("kind: Service\nmetadata: {name: web, namespace: shop}"), ["Service shop/web"]);
  assert.deepEqual(await names('kind: Service\nmetadata: {name: web, namespace: ""}'), ["Service default/web"]);
  assert.deepEqual(await names("kind: Node\nmetadata: {name: node-1}"), ["Node /node-1"]);
  const range = "apiVersion: networking.k8s.io/v1\nkind: ServiceCIDR\nmetadata: {name: kubernetes}";
  assert.deepEqual(await names(range), ["ServiceCIDR /kubernetes"]);
});

Deno.test("lists contain objects, and a ServiceList's items need no kind", async () => {
  assert.deepEqual(
    await names(`{"kind": "List", "apiVersion": "v1", "items": [
      {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "a"}},
      {"kind": "Node", "metadata": {"name": "b"}}]}`),
    ["Service default/a", "Node /b"],
  );
  assert.deepEqual(await names('{"kind": "ServiceList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}'), [
    "Service default/a",
  ]);
  assert.deepEqual(
    await names('{"kind": "ServiceList", "apiVersion": "v1", "items": [{"kind": "Node", "metadata": {"name": "b"}}]}'),
    ["Node /b"],
  );
  assert.deepEqual(
    await names(
      '{"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1", "items": [' +
        '{"metadata": {"name": "a", "labels": {"kubernetes.io/service-name": "a"}}, "addressType": "IPv4"}]}',
    ),
    ["EndpointSlice default/a"],
  );
});

Deno.test("other kinds, and kinds of the same name in other APIs, are ignored", async () => {
  const { objects, problems, ignored } = await readObjects(
    '{"kind": "List", "items": [{"apiVersion": "apps/v1", "kind": "Deployment"}, ' +
      '{"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "a"}}]}',
  );
  assert.deepEqual([objects, problems], [[], []]);
  assert.deepEqual(ignored, ["apps/v1 Deployment", "serving.knative.dev/v1 Service"]);
});

Deno.test("problems of an object have its line and name", async () => {
  assert.deepEqual(
    (await readObjects(
      "---\n# a list\nkind: List\nitems:\n- kind: Service\n  metadata: {name: a}\n  spec: {clusterIP: x}\n- 5\n",
    ))
      .problems,
    [
      { line: 5, message: 'Service default/a: cluster IP "x" is not an IP address; ignored' },
      { line: 8, message: "item 2 is 5, not an object; ignored" },
    ],
  );
  const [problem] = (await readObjects("\nkind: Service\nmetadata: {name: a b}\n")).problems;
  assert.equal(problem?.line, 2);
  assert.match(problem.message, /^Service: name "a b"/);
});

for (
  const [name, text, line] of [
    ["a sentence", "\nthis is not a manifest", 2],
    ["HTML", "<html>\n</html>", 1],
    ["a list", "- kind: Service", 1],
    ["an object without a kind", "a: 1", 1],
    ["an object whose kind is a number", '{"kind": 5}', 1],
  ] as const
) {
  Deno.test(`${name} is not a Kubernetes object`, async () => {
    await assert.rejects(
      () => readObjects(text),
      (error) => error instanceof DocumentError && error.line === line && /not a Kubernetes object/.test(error.message),
    );
  });
}

Deno.test("a document is decoded once, in however many places and versions of a file it stands", async () => {
  const service = (name: string) => `kind: Service\nmetadata: {name: ${name}}\n`;
  const decoded: (string | undefined)[] = [];
  const read = (text: string, before?: Awaited<ReturnType<typeof readFile>>["valid"]) =>
    readFile("a.yaml", text, before, (kind, raw) => {
      const result = decodeObject(kind, raw);
      decoded.push(result.ref?.name);
      return result;
    }, () => Promise.resolve());
  const first = await read([service("a"), service("b"), service("b"), service("c")].join("---\n"));
  assert.deepEqual([decoded.splice(0), first.valid?.length], [["a", "b", "c"], 4]);
  await read([service("d"), service("b"), service("c")].join("---\n"), first.valid);
  assert.deepEqual(decoded, ["d"]);
});

for (
  const [text, problem] of [
    ["kind: Servicee", 'kind "Servicee" is not known; did you mean Service? ignored'],
    ["apiVersion: v1\nkind: service", 'kind "service" is not known; did you mean Service? ignored'],
    ["apiVersion: v1\nkind: Endpoints", "Endpoints are not read; write an EndpointSlice"],
    ["apiVersion: discovery.k8s.io/v1beta1\nkind: EndpointSlice", 'has apiVersion "discovery.k8s.io/v1beta1", not'],
    [
      "kind: EndpointSlice\nmetadata: {name: a}\naddressType: IPv4",
      "EndpointSlice default/a: without the label kubernetes.io/service-name it belongs to no Service; ignored",
    ],
  ] as const
) {
  Deno.test(`a mistake is a problem and no silence: ${text.replaceAll("\n", ", ")}`, async () => {
    const { objects, problems } = await readObjects(text);
    assert.equal(objects.length, 0);
    assert.equal(problems.length, 1);
    assert.ok(problems[0]!.message.includes(problem), problems[0]!.message);
  });
}

Deno.test("kinds that resemble none are ignored silently, and so is a slice of a headless service", async () => {
  const headless = "metadata: {name: a, labels: {service.kubernetes.io/headless: ''}}";
  for (const text of ["kind: Pod", "apiVersion: v1\nkind: Secret", "apiVersion: v1\nkind: ServiceAccount"]) {
    assert.deepEqual((await readObjects(text)).problems, [], text);
  }
  const labels = "{kubernetes.io/service-name: a, service.kubernetes.io/headless: ''}";
  const slice = `kind: EndpointSlice\n${headless.replace(/labels: .*/, `labels: ${labels}}`)}\naddressType: IPv4`;
  assert.deepEqual((await readObjects(slice)).problems, []);
});
