const CERTIFICATE = /-----BEGIN CERTIFICATE-----([^-]+)-----END CERTIFICATE-----/;
const PRIVATE_KEY = /-----BEGIN ([A-Z ]*PRIVATE KEY)-----[^-]+-----END \1-----/;

/**
 * Throws an Error if a client certificate and its key (PEM; either text may hold both) cannot be used. For a mismatched key, a
 * damaged certificate or one of version 1, Deno 2.7 does not throw but exits (2.9 throws), and files may be seen in the middle
 * of a rotation.
 */
export type CertificateCheck = (certificate: string, key: string) => void;

/** Loads the check of client certificates together with `node:crypto`, which takes megabytes of memory. */
export async function loadCertificateCheck(): Promise<CertificateCheck> {
  const { createPrivateKey, createPublicKey, X509Certificate } = await import("node:crypto");
  return (certificate, key) => {
    const first = CERTIFICATE.exec(certificate);
    const privateKey = PRIVATE_KEY.exec(key);
    if (first === null) throw new Error("the client certificate holds no PEM certificate");
    if (privateKey === null) {
      throw new Error("the client key holds no PEM private key (an encrypted one cannot be used)");
    }
    const publicPem = { type: "spki", format: "pem" } as const;
    const ofCertificate = new X509Certificate(first[0]).publicKey.export(publicPem);
    const ofKey = createPublicKey(createPrivateKey(privateKey[0])).export(publicPem);
    if (ofCertificate !== ofKey) throw new Error("the client key does not belong to the client certificate");
    if (!isVersion3(atob(first[1]!.replace(/\s/g, "")))) {
      throw new Error("the client certificate is of X.509 version 1; only version 3 can be used");
    }
  };
}

/** Whether a DER certificate has the version field, which comes first and is missing for version 1. */
function isVersion3(der: string): boolean {
  const contentOf = (at: number) => {
    const length = der.charCodeAt(at + 1);
    return at + 2 + (length >= 0x80 ? length & 0x7f : 0);
  };
  return der.charCodeAt(contentOf(contentOf(0))) === 0xa0;
}
