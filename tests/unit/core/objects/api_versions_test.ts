/** Decodes objects of every supported version of Kubernetes, with the shapes recorded from its published API. */
import assert from "node:assert/strict";
import { createDecode } from "../../../../core/objects/decode.ts";
import type { DecodeOptions } from "../../../../core/objects/decode_options.ts";
import { KINDS as ALL } from "../../../../core/objects/mod.ts";
import { API_VERSIONS, hasField, recordingReads, sampleOf, shapesOf } from "../../../fakes/api_shapes.ts";

type Kind = typeof ALL[number];

/** The kinds that Sluice reads, with the API version of each. */
const KINDS: Readonly<Record<Kind, string>> = {
  Service: "v1 Service",
  EndpointSlice: "discovery.k8s.io/v1 EndpointSlice",
  Node: "v1 Node",
  ServiceCIDR: "networking.k8s.io/v1 ServiceCIDR",
};

/** Values of fields whose schema permits any string. */
const VALUES: Readonly<Record<Kind, Readonly<Record<string, unknown>>>> = {
  Service: {
    "spec.clusterIPs": ["10.96.0.10", "fd00:96::10"],
    "spec.clusterIP": "10.96.0.10",
    "spec.ipFamilies": ["IPv4", "IPv6"],
    "spec.externalIPs[]": "192.0.2.1",
    "spec.loadBalancerSourceRanges[]": "192.0.2.0/24",
    "spec.type": "LoadBalancer",
    "spec.externalTrafficPolicy": "Local",
    "spec.internalTrafficPolicy": "Cluster",
    "spec.sessionAffinity": "ClientIP",
    "spec.ports[].protocol": "TCP",
    "status.loadBalancer.ingress[].ip": "192.0.2.2",
    "status.loadBalancer.ingress[].ipMode": "VIP",
  },
  EndpointSlice: {
    "metadata.labels": { "kubernetes.io/service-name": "sample" },
    "addressType": "IPv4",
    "endpoints[].addresses[]": "10.244.1.5",
    "endpoints[].targetRef.kind": "Pod",
    "ports[].protocol": "TCP",
  },
  Node: {
    "spec.podCIDR": "10.244.1.0/24",
    "spec.podCIDRs[]": "10.244.1.0/24",
    "status.addresses[].type": "InternalIP",
    "status.addresses[].address": "192.0.2.3",
  },
  ServiceCIDR: { "spec.cidrs[]": "10.96.0.0/16" },
};

/** Enumerated fields, with the type of Go that has their values. */
const ENUMERATED: Readonly<Record<Kind, Readonly<Record<string, string>>>> = {
  Service: {
    "spec.type": "ServiceType",
    "spec.externalTrafficPolicy": "ServiceExternalTrafficPolicy",
    "spec.internalTrafficPolicy": "ServiceInternalTrafficPolicy",
    "spec.sessionAffinity": "ServiceAffinity",
    "spec.ports[].protocol": "Protocol",
    "status.loadBalancer.ingress[].ipMode": "LoadBalancerIPMode",
  },
  EndpointSlice: { "addressType": "AddressType", "ports[].protocol": "Protocol" },
  Node: { "status.addresses[].type": "NodeAddressType" },
  ServiceCIDR: {},
};

/** Values of other fields that an enumerated value requires. */
const WITH: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  "addressType IPv6": { "endpoints[].addresses[]": "fd00:10::5" },
};

const every = () => true;
const DETAILED: DecodeOptions = {
  details: { serviceLabels: every, serviceAnnotations: every, nodeLabels: every, nodeAnnotations: every },
};

/** The samples of a kind: one with all fields, one for each value of each enumerated field, and one without `omitted`. */
function samplesOf(version: string, kind: Kind, omitted: readonly string[] = []): readonly Record<string, unknown>[] {
  const { kinds, definitions, enumerations } = shapesOf(version);
  const name = kinds[KINDS[kind]];
  if (name === undefined) return [];
  const values = { ...VALUES[kind], ...Object.fromEntries(omitted.map((path) => [path, undefined])) };
  const variants = Object.entries(ENUMERATED[kind]).flatMap(([path, type]) =>
    enumerations[type]!.map((value) => ({ [path]: value, ...WITH[`${path} ${value}`] }))
  );
  return [{}, ...variants].map((variant) => sampleOf(definitions, name, { ...values, ...variant }));
}

/** The fields that decoding an object of this version reads. */
function fieldsRead(version: string, kind: Kind): ReadonlySet<string> {
  const paths = new Set<string>();
  for (const options of [{}, DETAILED]) {
    const decode = createDecode(options);
    for (const sample of [...samplesOf(version, kind), ...samplesOf(version, kind, ["spec.podCIDRs"])]) {
      decode(kind, recordingReads(sample, paths));
    }
  }
  return paths;
}

const kindsRead = Object.keys(KINDS) as readonly Kind[];
const oldest = API_VERSIONS[0]!;
const newest = API_VERSIONS.at(-1)!;

/**
 * The kinds and fields that the oldest version lacks, as docs/versions.md lists them, with the first version that has them.
 * Of a structure that is new as a whole, only the uppermost field.
 */
function newerThanOldest(): readonly string[] {
  const since = (isThere: (version: string) => boolean) => API_VERSIONS.find(isThere)!;
  return kindsRead.flatMap((kind) => {
    const kindSince = since((version) => shapesOf(version).kinds[KINDS[kind]] !== undefined);
    if (kindSince !== oldest) return [`${kind} ${kindSince}`];
    const isThere = (version: string, path: string) => {
      const { kinds, definitions } = shapesOf(version);
      return hasField(definitions, kinds[KINDS[kind]]!, path);
    };
    const newer = [...fieldsRead(newest, kind)].filter((path) => !isThere(oldest, path));
    return newer.filter((path) => !newer.some((above) => path !== above && path.startsWith(above)))
      .map((path) => `${kind} ${path} ${since((version) => isThere(version, path))}`);
  });
}

for (const version of API_VERSIONS) {
  Deno.test(`objects of Kubernetes ${version} decode without a problem, with every enumerated value`, () => {
    for (const kind of kindsRead) {
      for (const sample of samplesOf(version, kind)) {
        const { object, problems } = createDecode(DETAILED)(kind, sample);
        assert.deepEqual(problems, [], JSON.stringify(sample));
        if (sample.addressType !== "FQDN") assert.equal(object?.kind, kind);
      }
    }
  });
}

Deno.test("every field that Sluice reads is in the newest API", () => {
  const { kinds, definitions } = shapesOf(newest);
  for (const kind of kindsRead) {
    const read = fieldsRead(newest, kind);
    assert.ok(read.has("metadata.name") && read.size > 2, kind);
    const unknown = [...read].filter((path) => !hasField(definitions, kinds[KINDS[kind]]!, path));
    assert.deepEqual(unknown, [], kind);
  }
});

Deno.test("docs/versions.md lists what older versions lack, with its effect", () => {
  const page = Deno.readTextFileSync(new URL("../../../../docs/versions.md", import.meta.url));
  const rows = [...page.matchAll(/^\| `(\w+)`(?:, `([\w.[\]]+)`)? \| (\d\.\d+) \| \S/gm)];
  const documented = rows.map(([, kind, path, since]) => [kind, ...path ? [path] : [], since].join(" "));
  assert.deepEqual(documented.sort(), [...newerThanOldest()].sort());
});

Deno.test("an older version's objects mean the same, without the newer fields", () => {
  const decode = createDecode({});
  for (const version of API_VERSIONS) {
    samplesOf(version, "EndpointSlice").forEach((sample, index) => {
      const now = decode("EndpointSlice", samplesOf(newest, "EndpointSlice")[index]).object;
      if (now?.kind !== "EndpointSlice") return;
      const { kinds, definitions } = shapesOf(version);
      const hasNodeHints = hasField(definitions, kinds[KINDS.EndpointSlice]!, "endpoints[].hints.forNodes");
      const endpoints = now.endpoints.map((one) => hasNodeHints ? one : { ...one, nodeHints: undefined });
      assert.deepEqual(decode("EndpointSlice", sample).object, { ...now, endpoints });
    });
    for (const kind of ["Service", "Node"] as const) {
      const decoded = (of: string) => samplesOf(of, kind).map((sample) => decode(kind, sample));
      assert.deepEqual(decoded(version), decoded(newest), `${kind} of ${version}`);
    }
  }
});
