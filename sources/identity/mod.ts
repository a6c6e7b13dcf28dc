/**
 * Creates the identity of the proxies at an API server: service account, cluster role and token, as a kubeconfig.
 *
 *   objects.ts     the objects of the identity
 *   apply.ts       creates or updates them, or checks whether that is possible
 *   token.ts       obtains a token of the service account
 *   kubeconfig.ts  writes the kubeconfig
 *
 * In: an administrator's API client. Out: a kubeconfig. May touch: the network.
 */
export { type AppliedObject, applyObjects, objectName } from "./apply.ts";
export { kubeconfigText } from "./kubeconfig.ts";
export { identityObjects, siteObjects, tokenSecret } from "./objects.ts";
export { readSecretToken, requestToken, type Token } from "./token.ts";
