import { Agent, request as httpsRequest } from 'node:https';

import {
  parseJson,
  stringifyJson,
  isJsonObject,
  ownValue,
  type JsonObject,
  type JsonValue,
} from '../../admission/json.ts';
import { field } from '../api-object.ts';
import type { Storage } from '../storage/stored.ts';
import type { ClientConfig } from './hook.ts';

const SERVICES = { group: '', resource: 'services' };
/** As long as kube-apiserver keeps a connection that nobody uses, in milliseconds. */
const IDLE_MS = 90_000;

export interface WebhookCaller {
  /** POSTs a review and reads the answer. @throws Error that says what went wrong, as Go's client would */
  readonly call: (
    client: ClientConfig,
    body: JsonObject,
    timeoutMs: number,
    userAgent: string,
  ) => Promise<JsonValue>;
  readonly close: () => void;
}

interface Target {
  readonly host: string;
  readonly port: number;
  readonly path: string;
  /** The name that the certificate has to bear. */
  readonly serverName: string;
  /** As errors show it. */
  readonly shown: string;
}

/** Calls webhooks as kube-apiserver does: HTTPS/1.1, connections kept, verified against the caBundle and the Service's name. */
export function createWebhookCaller(storage: Storage): WebhookCaller {
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
      const { status, text } = await post(
        target,
        agentFor(client.ca),
        stringifyJson(body),
        timeoutMs,
        userAgent,
      );
      if (status < 200 || status > 299) throw new Error(complaintOf(status, text));
      return parseJson(text);
    },
    close: () => {
      for (const agent of agents.values()) agent.destroy();
    },
  };
}

function targetOf({ url, service }: ClientConfig, storage: Storage, timeoutMs: number): Target {
  const query = `timeout=${Math.round(timeoutMs / 1_000)}s`;
  if (url !== undefined) {
    const { hostname, port, pathname, search } = new URL(url);
    const path = `${pathname}${search === '' ? '?' : `${search}&`}${query}`;
    const number = port === '' ? 443 : Number(port);
    return {
      host: hostname,
      port: number,
      path,
      serverName: hostname,
      shown: `https://${hostname}:${number}${path}`,
    };
  }
  if (service === undefined) throw new Error('the webhook has neither url nor service');
  const { namespace, name, port } = service;
  const path = `${service.path.startsWith('/') ? '' : '/'}${service.path}?${query}`;
  const serverName = `${name}.${namespace}.svc`;
  const stored = storage.get(SERVICES, { namespace, name });
  const shown = `https://${serverName}:${port}${path}`;
  if (stored === undefined)
    throw new Error(`Post ${JSON.stringify(shown)}: service ${JSON.stringify(name)} not found`);
  const spec = field(stored, 'spec');
  const externalName = isJsonObject(spec) ? ownValue(spec, 'externalName') : undefined;
  if (typeof externalName !== 'string' || externalName === '') {
    throw new Error(
      `Post ${JSON.stringify(shown)}: no route to the Service: the sandbox runs no pods. ` +
        'Make it a Service of type ExternalName with externalName localhost',
    );
  }
  return { host: externalName, port, path, serverName, shown };
}

interface Reply {
  readonly status: number;
  readonly text: string;
}

function post(
  target: Target,
  agent: Agent,
  body: string,
  timeoutMs: number,
  userAgent: string,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(timeoutMs);
    const call = httpsRequest(
      {
        host: target.host,
        port: target.port,
        path: target.path,
        servername: target.serverName,
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
          resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString('utf8') });
        });
      },
    );
    const fail = (error: Error) => {
      const why = signal.aborted ? 'context deadline exceeded' : error.message;
      reject(new Error(`Post ${JSON.stringify(target.shown)}: ${why}`, { cause: error }));
    };
    call.on('error', fail);
    call.end(body);
  });
}

/** A Status in the body says more than the code. */
function complaintOf(status: number, text: string): string {
  const bare = `the server responded with the status code ${status} but did not return more information`;
  try {
    const body = parseJson(text);
    const message = isJsonObject(body) ? ownValue(body, 'message') : undefined;
    return typeof message === 'string' && message !== '' ? message : bare;
  } catch {
    return text.trim() === ''
      ? bare
      : `an error on the server (${JSON.stringify(text.slice(0, 1_024).trim())}) has prevented the request from succeeding`;
  }
}
