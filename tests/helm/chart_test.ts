/** Renders the Helm chart with helm, and compares it with the manifests of deploy/. */
import assert from "node:assert/strict";
import { parseAllDocuments } from "yaml";
import { API_VERSIONS } from "../fakes/api_shapes.ts";
import { type ApiObject, validationOf } from "../fakes/api_validation.ts";
import { accepted } from "../unit/config/parse.ts";

const ROOT = new URL("../../", import.meta.url);
const CHART = new URL("deploy/helm/sluice", ROOT).pathname;
const REQUIRED = ["--set", "apiServer=10.0.0.1:6443"];
const EVERYTHING = [
  "podMonitor.enabled=true",
  "alerts.enabled=true",
  "dashboard.enabled=true",
  "networkPolicy.enabled=true",
  "config.metricsBindAddress=0.0.0.0:10249",
].flatMap((value) => ["--set", value]);

const isInstalled = await helm("version").then(({ success }) => success, () => false);
if (!isInstalled) {
  console.warn("skipped: helm is not installed (go install helm.sh/helm/v3/cmd/helm@v3.18.6)");
}

async function helm(...args: readonly string[]) {
  const { success, stdout, stderr } = await new Deno.Command("helm", { args: [...args] }).output();
  const text = new TextDecoder();
  return { success, stdout: text.decode(stdout), stderr: text.decode(stderr) };
}

// deno-lint-ignore no-explicit-any -- manifests of many kinds
type Manifest = Record<string, any>;

function documents(text: string): readonly Manifest[] {
  return parseAllDocuments(text, { merge: true }).flatMap((document) => {
    assert.deepEqual(document.errors, []);
    return document.toJS() ?? [];
  });
}

async function rendered(...flags: readonly string[]): Promise<readonly Manifest[]> {
  const args = ["template", "sluice", CHART, "--namespace", "kube-system", "--kube-version", "1.33", ...flags];
  const { success, stdout, stderr } = await helm(...args);
  assert.ok(success, stderr);
  return documents(stdout);
}

function deployed(name: string): readonly Manifest[] {
  return documents(Deno.readTextFileSync(new URL(`deploy/${name}`, ROOT)));
}

function find(manifests: readonly Manifest[], kind: string): Manifest {
  const found = manifests.find((manifest) => manifest.kind === kind);
  assert.ok(found, `no ${kind}`);
  return found;
}

function test(name: string, fn: () => Promise<void>): void {
  Deno.test({ name, ignore: !isInstalled, fn });
}

test("helm lints the chart", async () => {
  const { success, stdout, stderr } = await helm("lint", "--strict", CHART, ...REQUIRED);
  assert.ok(success, stdout + stderr);
});

test("the chart's DaemonSet runs Sluice as deploy/daemonset.yaml does", async () => {
  const ofChart = find(await rendered(...REQUIRED), "DaemonSet").spec;
  const ofDeploy = find(deployed("daemonset.yaml"), "DaemonSet").spec;
  assert.deepEqual(ofChart.updateStrategy, ofDeploy.updateStrategy);
  const { initContainers, containers, ...pod } = ofChart.template.spec;
  const { initContainers: deployedInit, containers: deployedContainers, ...deployedPod } = ofDeploy.template.spec;
  assert.deepEqual(pod, deployedPod);
  const withoutOwn = ({ imagePullPolicy: _, ports: __, ...container }: Manifest) => container;
  assert.deepEqual(initContainers.map(withoutOwn), deployedInit);
  assert.deepEqual(containers.map(withoutOwn), deployedContainers);
});

test("the chart's configuration is that of deploy/daemonset.yaml, and valid", async () => {
  const { data } = find(await rendered(...REQUIRED), "ConfigMap");
  const [configuration] = documents(data["config.yaml"]);
  assert.deepEqual(configuration, documents(find(deployed("daemonset.yaml"), "ConfigMap").data["config.yaml"])[0]);
  accepted(["--config", "f", "--strict-config"], { files: { f: data["config.yaml"] } });
  assert.match(data.kubeconfig, /server: https:\/\/10\.0\.0\.1:6443$/m);
});

test("the chart's roles are those of deploy/rbac.yaml", async () => {
  const manifests = await rendered(...REQUIRED);
  assert.deepEqual(find(manifests, "ClusterRole").rules, find(deployed("rbac.yaml"), "ClusterRole").rules);
  const { roleRef, subjects } = find(deployed("rbac.yaml"), "ClusterRoleBinding");
  const binding = find(manifests, "ClusterRoleBinding");
  assert.deepEqual({ roleRef: binding.roleRef, subjects: binding.subjects }, { roleRef, subjects });
});

test("the chart permits the node condition only if the configuration asks for it", async () => {
  const { rules } = find(await rendered(...REQUIRED, "--set", "config.nodeCondition=true"), "ClusterRole");
  const without = find(await rendered(...REQUIRED), "ClusterRole").rules;
  assert.deepEqual(rules, [...without, { apiGroups: [""], resources: ["nodes/status"], verbs: ["patch"] }]);
});

test("a site's role and that of operators are those of deploy/", async () => {
  const flags = [
    "--set",
    "config.site.name=store-12,siteMembers={node-a,node-b,node-c},operators.group=sluice-operators,config.balance.podLabels[0]=app",
  ];
  const manifests = await rendered(...REQUIRED, ...flags);
  const named = (kind: string, suffix: string) =>
    manifests.find((one) => one.kind === kind && one.metadata.name === `sluice-${suffix}`)!;
  for (const site of deployed("sites.yaml")) {
    const { metadata, ...content } = manifests.find(({ kind, metadata: { name } }) =>
      kind === site.kind && name === site.metadata.name
    )!;
    assert.equal(metadata.namespace, site.metadata.namespace);
    const { metadata: _, ...expected } = site;
    assert.deepEqual(content, expected);
  }
  const operators = deployed("kubectl-sluice.yaml");
  for (const kind of ["ClusterRole", "Role"]) {
    assert.deepEqual(named(kind, "operator").rules, find(operators, kind).rules);
    assert.deepEqual(named(`${kind}Binding`, "operator").subjects, find(operators, `${kind}Binding`).subjects);
  }
  const [role] = manifests.filter((one) => one.kind === "ClusterRole" && one.metadata.name === "sluice");
  assert.ok(role!.rules.some(({ resources }: Manifest) => resources[0] === "pods"));
  const { volumes } = find(manifests, "DaemonSet").spec.template.spec;
  assert.ok(volumes.some(({ hostPath }: Manifest) => hostPath?.path === "/var/lib/kubelet/pki"));
});

test("monitoring has the alert rules and the dashboard of deploy/, and a port that the pod has", async () => {
  const manifests = await rendered(...REQUIRED, ...EVERYTHING);
  assert.deepEqual(find(manifests, "PrometheusRule").spec, deployed("alerts.yaml")[0]);
  const dashboard = manifests.find(({ data }) => data?.["sluice.json"] !== undefined);
  for (const [key, file] of [["sluice", "grafana-dashboard"], ["sluice-traffic", "grafana-traffic-dashboard"]]) {
    const json = Deno.readTextFileSync(new URL(`deploy/${file}.json`, ROOT));
    assert.deepEqual(JSON.parse(dashboard!.data[`${key}.json`]), JSON.parse(json));
  }
  const ports = find(manifests, "DaemonSet").spec.template.spec.containers[0].ports.map(({ name }: Manifest) => name);
  assert.ok(ports.includes(find(manifests, "PodMonitor").spec.podMetricsEndpoints[0].port));
  for (const { ports: admitted } of find(manifests, "NetworkPolicy").spec.ingress) {
    for (const { port } of admitted) assert.ok(ports.includes(port), port);
  }
});

/** Flags that set most values to something else than their defaults. */
const OTHER_VALUES = [
  "fullnameOverride=other",
  `image.digest=sha256:${"0".repeat(64)}`,
  "imagePullSecrets[0].name=registry",
  "config.mode=nftables",
  "extraArgs[0]=-v=4",
  "extraEnv[0].name=OTEL_EXPORTER_OTLP_ENDPOINT",
  "extraEnv[0].value=http://127.0.0.1:4318",
  "resources.limits.memory=256Mi",
  "nodeSelector.proxy=sluice",
  "tolerations[0].key=edge",
  "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key=edge",
  "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator=Exists",
  "priorityClassName=",
  "updateStrategy.rollingUpdate.maxUnavailable=1",
  "podAnnotations.sample=text",
  "podLabels.sample=text",
  "serviceAccount.name=other",
  "networkPolicy.from[0].podSelector.matchLabels.app=prometheus",
  "podMonitor.labels.release=prometheus",
  "config.site.name=shop",
  "siteMembers={a,b}",
  "config.nodeCondition=true",
  "operators.group=people",
  "containerRuntimeEndpoint=unix:///run/containerd/containerd.sock",
].flatMap((value) => ["--set", value]);

for (const version of API_VERSIONS) {
  test(`the chart's objects are valid in Kubernetes ${version}, without unknown fields`, async () => {
    const validate = validationOf(version);
    const sets = [[], EVERYTHING, [...EVERYTHING, ...OTHER_VALUES], [
      "--set",
      "rbac.create=false,serviceAccount.create=false",
    ]];
    for (const set of sets) {
      const objects = await rendered(...REQUIRED, ...set) as readonly ApiObject[];
      assert.deepEqual(objects.flatMap(validate), [], set.join(" "));
    }
  });
}

test("the kept state and the container runtime's socket are folders of the node, if they are set", async () => {
  const folders = async (...values: readonly string[]) => {
    const { containers, initContainers, volumes } =
      find(await rendered(...REQUIRED, ...values), "DaemonSet").spec.template.spec;
    const paths = new Map(volumes.map(({ name, hostPath }: Manifest) => [name, hostPath?.path]));
    const mounted = ({ volumeMounts }: Manifest) =>
      volumeMounts.map(({ name, mountPath, readOnly }: Manifest) => {
        if (paths.get(name)) assert.equal(paths.get(name), mountPath);
        return `${mountPath}${readOnly ? " read-only" : ""}`;
      });
    return { args: containers[0].args.slice(4), mounts: mounted(containers[0]), ofInit: mounted(initContainers[0]) };
  };
  const RUNTIME = "/run/containerd read-only";
  const without = await folders("--set", "stateDirectory=");
  assert.deepEqual(without.args, []);
  assert.ok(!without.mounts.includes("/var/lib/sluice"));
  const endpoint = "unix:///run/containerd/containerd.sock";
  const both = await folders("--set", `stateDirectory=/data/sluice,containerRuntimeEndpoint=${endpoint}`);
  assert.deepEqual(both.args, ["--state-directory", "/data/sluice", "--container-runtime-endpoint", endpoint]);
  assert.ok(both.mounts.includes("/data/sluice") && both.mounts.includes(RUNTIME));
  assert.ok(!both.ofInit.includes(RUNTIME));
});

test("further variables are in the environment of the proxy, besides the name of the node", async () => {
  const manifests = await rendered(...REQUIRED, "--set", "extraEnv[0].name=OTEL_SERVICE_NAME,extraEnv[0].value=edge");
  const { env } = find(manifests, "DaemonSet").spec.template.spec.containers[0];
  assert.equal(env[0].name, "NODE_NAME");
  assert.deepEqual(env.at(-1), { name: "OTEL_SERVICE_NAME", value: "edge" });
});

test("bad values are refused with what to do", async () => {
  const refusal = async (...flags: readonly string[]) => {
    const { success, stderr } = await helm("template", "sluice", CHART, "--kube-version", "1.33", ...flags);
    assert.equal(success, false, flags.join(" "));
    return stderr;
  };
  assert.match(await refusal(), /apiServer is required: host:port of the API server/);
  assert.match(await refusal("--set", "apiServer=kubernetes"), /apiServer/);
  assert.match(await refusal(...REQUIRED, "--set", "stateDirectory=var/lib"), /stateDirectory/);
  assert.match(await refusal(...REQUIRED, "--set", "containerRuntimeEndpoint=tcp://a:1"), /containerRuntimeEndpoint/);
  const runtime = "containerRuntimeEndpoint=/run/containerd/containerd.sock";
  assert.match(await refusal(...REQUIRED, "--set", `${runtime},stateDirectory=`), /needs a stateDirectory/);
  const ofItself = await refusal("--set", "apiServer=kubernetes.default.svc:443");
  assert.match(ofItself, /apiServer: Sluice itself provides the service kubernetes; use the address of/);
  assert.match(await refusal(...REQUIRED, "--set", "config.mode=nft"), /\/config\/mode/);
  assert.match(await refusal(...REQUIRED, "--set", "config.metricsBindAddress=10249"), /\/config\/metricsBindAddress/);
  assert.match(await refusal(...REQUIRED, "--set", "config.clusterCidr=10.0.0.0/8"), /'clusterCidr' not allowed/);
  assert.match(await refusal(...REQUIRED, "--set", "config.clusterCIDR=10.244.0.0"), /\/config\/clusterCIDR/);
  assert.match(await refusal(...REQUIRED, "--set", "config.iptables=all"), /\/config\/iptables/);
  assert.match(await refusal(...REQUIRED, "--set", "bogus=1"), /additional properties 'bogus' not allowed/);
  assert.match(await refusal(...REQUIRED, "--set", "podMonitor.enabled=true"), /needs config\.metricsBindAddress/);
});
