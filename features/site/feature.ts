import { feature } from "../contract.ts";
import { checkSite, LEASES, SITE, siteObjectName } from "./options.ts";

/** Of several nodes behind one uplink, one watches the API server and serves the others (docs/sites.md). */
export const site = feature({
  name: "site",
  fields: { site: SITE },
  flags: {
    "site": [
      "site.name",
      "The name of this node's site: of the nodes of a site, one watches the API server and serves the others.",
    ],
    "site-listen-address": [
      "site.listenAddress",
      "The HOST:PORT on which a site's leader serves the other nodes; :12094 by default.",
    ],
    "site-tls-ca": [
      "site.tlsCAFile",
      "The PEM file of the CA that must have signed the certificates of a site's nodes; /etc/kubernetes/pki/ca.crt by default.",
    ],
    "site-tls-crt": [
      "site.tlsCertFile",
      "The PEM file of this node's certificate for its site, for servers and clients; the kubelet's client certificate by default.",
    ],
    "site-tls-key": ["site.tlsPrivateKeyFile", "The PEM file of that certificate's key."],
  },
  problems: {
    "site-lease-refused": {
      severity: "warning",
      about: "API resource",
      title: "the Lease of the site cannot be used, so this node watches the API server itself",
      fix:
        "create the site with sluice kubeconfig --site NAME --site-members NODE,NODE, or deploy/sites.yaml; or correct the site's " +
        "certificates; see the detail (docs/sites.md)",
    },
    "site-not-member": {
      severity: "warning",
      about: "API resource",
      title: "this node is no member of its site, so it watches the API server itself",
      fix: "name it among --site-members of sluice kubeconfig --site NAME, or correct site.name (docs/sites.md)",
    },
    "site-leader-refused": {
      severity: "warning",
      about: "API resource",
      title: "the node that holds the site's Lease may not lead, so this node watches the API server itself",
      fix:
        "if that node belongs to the site, name it among --site-members, or give it a certificate with its name and the site's CA; " +
        "if not, somebody misuses the token of the site's nodes: replace it (docs/sites.md)",
    },
    "site-not-served": {
      severity: "error",
      about: "server",
      title: "the leader of the site cannot serve the other nodes, which watch the API server themselves",
      fix:
        "free the port or set site.listenAddress, or correct the site's certificates; see the detail (docs/sites.md)",
    },
  },
  check: ({ site }, _mode, report) => checkSite(site, report.invalid),
  permissions({ site: { name: site, leaseNamespace: namespace } }) {
    const without = "this node watches the API server itself, not the leader of its site";
    const fix =
      `run \`sluice kubeconfig --site ${site} --site-members NODE,NODE\` with an administrator's kubeconfig, or apply ` +
      "deploy/sites.yaml with the site's name and nodes";
    const used = { namespace, name: siteObjectName(site), without, fix };
    return [
      { ...used, verb: "get", resource: LEASES },
      { ...used, verb: "patch", resource: LEASES },
      { ...used, verb: "get", resource: "configmaps" },
    ];
  },
  isOn: ({ site }) => site.name !== "",
  source: { origin: ({ site }) => `site ${site.name}`, load: () => import("./source.ts") },
});
