import { Agent, request as httpsRequest } from 'node:https';
import { isIP } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import { messageOf } from '../json/abort.ts';
import { jsonIn, stringifyJson, parseJson, textIn, type JsonValue } from '../json/json.ts';
import { spec, text } from '../machinery/fields.ts';
import type { Storage } from '../machinery/storage/stored.ts';
import type { CallWebhook, ClientConfig } from '../machinery/webhooks/hook.ts';

const SERVICES = { group: '', resource: 'services' };
/** How long kube-apiserver keeps an idle connection, in milliseconds. */
const IDLE_MS = 90_000;

/** Calls webhooks like kube-apiserver: HTTP/1.1 over TLS, verified against the caBundle and the Service's name. */
export function createWebhookCaller(storage: Storage): {
  readonly call: CallWebhook;
  readonly close: () => void;
} {
  const agents = new Map<string, Agent>();
  const agentFor = (ca: string | undefined): Agent => {
    const known = agents.get(ca ?? '');
    if (known !== undefined) return known;
    const agent = new Agent({ keepAlive: true, timeout: IDLE_MS, ...(ca === undefined ? {} : { ca }) });
    agents.set(ca ?? '', agent);
    return agent;
  };
  return {
    call: async (client, body, timeoutMs, userAgent) => {
      const target = targetOf(client, storage, timeoutMs);
      const agent = agentFor(client.ca);
      const question = escapeHtml(stringifyJson(body));
      const reply = await asOftenAsAsked(
        (signal) => post(target, agent, question, signal, userAgent),
        AbortSignal.timeout(timeoutMs),
      );
      if (reply.status < 200 || reply.status > 206) throw new Error(statusError(reply));
      return parseAnswer(reply);
    },
    close: () => {
      for (const agent of agents.values()) agent.destroy();
    },
  };
}

/** Go's JSON encoder escapes these characters, so that a review can be six times as large as its object. */
export const escapeHtml = (json: string): string =>
  json.replace(/[<>&\u2028\u2029]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });

function targetOf({ url, service }: ClientConfig, storage: Storage, timeoutMs: number) {
  const query = `timeout=${Math.round(timeoutMs / 1_000)}s`;
  if (url !== undefined) {
    const { hostname: host, port: given, pathname, search } = new URL(url);
    const path = `${pathname}${search === '' ? '?' : `${search}&`}${query}`;
    const port = given === '' ? 443 : Number(given);
    return { host, port, path, serverName: host, shown: `https://${host}:${port}${path}` };
  }
  if (service === undefined) throw new Error('the webhook has neither url nor service');
  const { namespace, name, port } = service;
  const path = `${service.path.startsWith('/') ? '' : '/'}${service.path}?${query}`;
  const serverName = `${name}.${namespace}.svc`;
  const stored = storage.get(SERVICES, { namespace, name });
  const shown = `https://${serverName}:${port}${path}`;
  if (stored === undefined)
    throw new Error(`Post ${JSON.stringify(shown)}: service ${JSON.stringify(name)} not found`);
  const externalName = text(spec(stored), 'externalName');
  if (externalName === '') {
    throw new Error(
      `Post ${JSON.stringify(shown)}: no route to the Service: the sandbox runs no pods. ` +
        'Make it a Service of type ExternalName with externalName localhost',
    );
  }
  return { host: externalName, port, path, serverName, shown };
}

/** As client-go does: k8s.io/client-go rest/with_retry.go. */
const MOST_RETRIES = 10;

/** Retries as long as the answer is 429 or 5xx with a Retry-After. */
async function asOftenAsAsked(
  send: (signal: AbortSignal) => Promise<Reply>,
  signal: AbortSignal,
): Promise<Reply> {
  for (let retries = 0; ; retries += 1) {
    const reply = await send(signal);
    const { status, retryAfterSeconds } = reply;
    const asksAgain = (status === 429 || status >= 500) && retryAfterSeconds !== undefined;
    if (!asksAgain || retries === MOST_RETRIES) return reply;
    // If the wait exceeds the timeout, the next attempt reports it.
    await sleep(retryAfterSeconds * 1_000, undefined, { signal }).catch(() => undefined);
  }
}

interface Reply {
  readonly status: number;
  /** Undefined without a Retry-After header. */
  readonly retryAfterSeconds: number | undefined;
  /** Empty without a Content-Type header. */
  readonly contentType: string;
  readonly body: string;
}

function post(
  target: ReturnType<typeof targetOf>,
  agent: Agent,
  body: string,
  signal: AbortSignal,
  userAgent: string,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const call = httpsRequest(
      {
        host: target.host,
        port: target.port,
        path: target.path,
        // IP addresses are not allowed in SNI (RFC 6066 §3), but certificates are still verified against them.
        servername: isIP(target.serverName) === 0 ? target.serverName : '',
        method: 'POST',
        agent,
        signal,
        headers: {
          host: `${target.serverName}:${target.port}`,
          'user-agent': userAgent,
          accept: 'application/json, */*',
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
        },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', fail);
        response.on('end', () => {
          const retryAfter = response.headers['retry-after'] ?? '';
          resolve({
            status: response.statusCode ?? 0,
            retryAfterSeconds: /^\d+$/.test(retryAfter) ? Number(retryAfter) : undefined,
            contentType: response.headers['content-type'] ?? '',
            body: Buffer.concat(chunks).toString('utf8'),
          });
        });
      },
    );
    const fail = (error: NodeJS.ErrnoException) => {
      // The server closed the idle connection before we noticed: try once more.
      if (error.code === 'ECONNRESET' && call.reusedSocket && !signal.aborted) {
        resolve(post(target, agent, body, signal, userAgent));
        return;
      }
      const why = signal.aborted ? 'context deadline exceeded' : networkError(error, target.serverName);
      reject(new Error(`Post ${JSON.stringify(target.shown)}: ${why}`, { cause: error }));
    };
    call.on('error', fail);
    call.end(body);
  });
}

// Errors in the words of the API server's client and Go's libraries: users search for them, and tools match them.

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
function networkError(error: NodeJS.ErrnoException, serverName: string): string {
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

/** A Status in the body is more specific than the code (NewGenericServerResponse of apimachinery). */
function statusError({ status, contentType, body }: Reply): string {
  const said = jsonIn(body);
  if (textIn(said, 'status') === 'Failure') return textIn(said, 'message');
  const shown = contentType === '' || contentType.startsWith('text/') ? body.trim() : 'unknown';
  return status >= 500
    ? `an error on the server (${JSON.stringify(shown)}) has prevented the request from succeeding`
    : `the server responded with the status code ${status} but did not return more information`;
}

function parseAnswer({ status, contentType, body }: Reply): JsonValue {
  if (body === '') {
    throw new Error(`0-length response with status code: ${status} and content type: ${contentType}`);
  }
  try {
    return parseJson(body);
  } catch (cause) {
    throw new Error(`couldn't get version/kind; json parse error: ${messageOf(cause)}`, { cause });
  }
}
