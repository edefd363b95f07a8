import { isJsonObject, ownValue, parseJson, type JsonValue } from '../../../json/json.ts';

// Errors of webhook calls in the words of the API server's client and Go's libraries, because users search for them
// and tools match on them.

const UNTRUSTED = 'tls: failed to verify certificate: x509: certificate signed by unknown authority';

/** Messages for Node's error codes; `$` is replaced by the address if the error has one. */
const NETWORK: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'dial tcp $: connect: connection refused',
  ECONNRESET: 'EOF',
  EHOSTUNREACH: 'dial tcp $: connect: no route to host',
  ENETUNREACH: 'dial tcp $: connect: network is unreachable',
  ENOTFOUND: 'dial tcp: lookup $: no such host',
  CERT_HAS_EXPIRED: 'tls: failed to verify certificate: x509: certificate has expired or is not yet valid',
  CERT_NOT_YET_VALID: 'tls: failed to verify certificate: x509: certificate has expired or is not yet valid',
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
};

/** Why a connection failed. `serverName` is the name that the certificate must contain. */
export function networkError(error: NodeJS.ErrnoException, serverName: string): string {
  // Happy eyeballs: every address of the name failed with its own error.
  if (error instanceof AggregateError) {
    const first: unknown = error.errors[0];
    if (first instanceof Error) return networkError(first, serverName);
  }
  const { code = '', message } = error;
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    const names = Array.from(message.matchAll(/(?:DNS|IP Address):([^\s,]+)/g), ([, name]) => name);
    const valid = names.length === 0 ? 'is not valid for any names' : `is valid for ${names.join(', ')}`;
    return `tls: failed to verify certificate: x509: certificate ${valid}, not ${serverName}`;
  }
  return NETWORK[code]?.replace('$', addressOf(error)) ?? message;
}

function addressOf(error: Error): string {
  const { address, port, hostname } = error as { address?: string; port?: number; hostname?: string }; // Node's system errors have these fields
  if (address === undefined) return hostname ?? '';
  return `${address.includes(':') ? `[${address}]` : address}:${port ?? 0}`;
}

const STATUS: Readonly<Record<number, string>> = {
  400: 'the server rejected our request for an unknown reason',
  401: 'the server has asked for the client to provide credentials',
  404: 'the server could not find the requested resource',
  405: 'the server does not allow this method on the requested resource',
  409: 'the server reported a conflict',
  422: 'the server rejected our request due to an error in our request',
  429: 'the server has received too many requests and has asked us to try again later',
  503: 'the server is currently unable to handle the request',
  504: 'the server was unable to return a response in the time allotted, but may still be processing the request',
};

/**
 * The error for a status code other than success. A Status in the body is more specific than the code.
 * @see NewGenericServerResponse of k8s.io/apimachinery/pkg/api/errors
 */
export function statusError(status: number, contentType: string, text: string): string {
  const said = messageOfStatus(text);
  if (said !== undefined) return said;
  const told = STATUS[status];
  if (told !== undefined) return told;
  const shown = contentType === '' || contentType.startsWith('text/') ? text.trim() : 'unknown';
  if (status === 403 || status === 406 || status === 415) return shown;
  return status >= 500
    ? `an error on the server (${JSON.stringify(shown)}) has prevented the request from succeeding`
    : `the server responded with the status code ${status} but did not return more information`;
}

function messageOfStatus(text: string): string | undefined {
  let body: JsonValue;
  try {
    body = parseJson(text);
  } catch {
    return undefined;
  }
  if (!isJsonObject(body) || ownValue(body, 'status') !== 'Failure') return undefined;
  const message = ownValue(body, 'message');
  return typeof message === 'string' ? message : '';
}

/** Parses the body of an answer. @throws Error */
export function parseAnswer(status: number, contentType: string, text: string): JsonValue {
  if (text === '') {
    throw new Error(`0-length response with status code: ${status} and content type: ${contentType}`);
  }
  try {
    return parseJson(text);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`couldn't get version/kind; json parse error: ${why}`, { cause });
  }
}
