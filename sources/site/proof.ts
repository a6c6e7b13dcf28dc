/** Signatures of the messages of a site's nodes on the LAN. */
import { Buffer } from "node:buffer";
import type { TlsFiles } from "../../kpng/transport/mod.ts";

/** A signature, and the certificate whose key has made it (base64; the certificate in DER). */
export interface Proof {
  readonly certificate: string;
  readonly signature: string;
}

/** Signs as this node, and checks the signatures of others. */
export interface Proofs {
  sign(text: string): Proof;
  /** Whether a node with this name has signed this text. `nowMs` is wall time in milliseconds since 1970. */
  isSigned(text: string, node: string, proof: Proof, nowMs: number): boolean;
}

/** What is signed begins with this, so that no signature made for another purpose is taken for one of these. */
const CONTEXT = "sluice site datagram v1\n";
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Whether the subject of a certificate is that of a node: its organizations, and its common names. */
export type IsNode = (organizations: readonly string[], names: readonly string[], node: string) => boolean;

/** The proofs of a node with these files. Throws an Error if they cannot be used. */
export async function proofsOf({ ca, crt, key }: TlsFiles, isNode: IsNode): Promise<Proofs> {
  const { createPrivateKey, sign, verify, X509Certificate } = await import("node:crypto");
  const authorities = certificatesIn(ca).map((pem) => new X509Certificate(pem));
  const [own] = certificatesIn(crt).map((pem) => new X509Certificate(pem));
  if (own === undefined || key === undefined) throw new Error("a certificate and its key are needed");
  const certificate = own.raw.toString("base64");
  const privateKey = createPrivateKey(PRIVATE_KEY.exec(key)?.[0] ?? key);
  const signedOf = (text: string) => Buffer.from(CONTEXT + text);

  return {
    sign: (text) => ({ certificate, signature: sign("sha256", signedOf(text), privateKey).toString("base64") }),
    isSigned(text, node, proof, nowMs) {
      try {
        const shown = new X509Certificate(Buffer.from(proof.certificate, "base64"));
        if (nowMs < Date.parse(shown.validFrom) || nowMs > Date.parse(shown.validTo)) return false;
        const isOfSite = authorities.some((authority) =>
          shown.checkIssued(authority) && shown.verify(authority.publicKey)
        );
        const { O, CN } = shown.toLegacyObject().subject;
        if (!isOfSite || !isNode(listOf(O), listOf(CN), node)) return false;
        return verify("sha256", signedOf(text), shown.publicKey, Buffer.from(proof.signature, "base64"));
      } catch {
        // Not a certificate, or not a key for signatures.
        return false;
      }
    },
  };
}

/** The key in a file that also has a certificate, as the kubelet's. */
const PRIVATE_KEY = /-----BEGIN ([A-Z ]*PRIVATE KEY)-----[^-]+-----END \1-----/;

function certificatesIn(pem: string | undefined): readonly string[] {
  return pem?.match(CERTIFICATE) ?? [];
}

function listOf(value: string | readonly string[] | undefined): readonly string[] {
  return value === undefined ? [] : typeof value === "string" ? [value] : value;
}
