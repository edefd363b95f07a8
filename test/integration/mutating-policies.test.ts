/** MutatingAdmissionPolicies in the sandbox, compared with recorded answers of kube-apiserver 1.36. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, onTestFinished, test } from 'vitest';

import { createSandboxTls } from '../../src/cli/sandbox/tls.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { createTransport } from '../conformance/transport.ts';
import { EXCEPTIONS } from './mutating-policies-exceptions.ts';

interface Call {
  readonly method: string;
  readonly path: string;
  readonly contentType?: string;
  readonly body?: unknown;
}

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly namespace?: string };
}

interface Answer {
  readonly code: number;
  readonly reason?: string;
  readonly message?: string;
  readonly details?: object;
  readonly object?: unknown;
}

interface PodSpec {
  readonly tolerations?: readonly { readonly key?: string }[];
}

interface Recorded {
  readonly name: string;
  readonly setup: readonly (Manifest | { readonly request: Call })[];
  readonly request: Call;
  readonly response: Answer;
}

const RECORDED = readFileSync(join(import.meta.dirname, '..', 'data', 'mutating-policies-1.36.jsonl'), 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Recorded); // our own file

const TOKEN = 'admin';
const ADMIN = { username: 'admin', groups: ['system:masters', 'system:authenticated'] };

let tls: Awaited<ReturnType<typeof createSandboxTls>>;

beforeAll(async () => {
  tls = await createSandboxTls(new Date());
});

/** A sandbox without leftovers of other cases. */
async function start() {
  const sandbox = await startSandbox({ tls, users: new Map([[TOKEN, ADMIN]]) });
  const transport = createTransport(`https://localhost:${sandbox.port}`, tls.ca);
  onTestFinished(async () => {
    transport.close();
    await sandbox.stop();
  });
  return ({ method, path, contentType = 'application/json', body }: Call) =>
    transport.call({
      ...{ method, path },
      headers: { authorization: `Bearer ${TOKEN}`, 'content-type': contentType, 'user-agent': 'recorder' },
      body: typeof body === 'string' || body === undefined ? body : JSON.stringify(body),
    });
}

type Send = Awaited<ReturnType<typeof start>>;

async function create(send: Send, manifest: Manifest): Promise<void> {
  const { apiVersion, kind, metadata } = manifest;
  const root = apiVersion === 'v1' ? '/api/v1' : `/apis/${apiVersion}`;
  const { resources } = JSON.parse((await send({ method: 'GET', path: root })).text) as {
    readonly resources: readonly {
      readonly kind: string;
      readonly name: string;
      readonly namespaced: boolean;
    }[];
  };
  const found = resources.find((one) => one.kind === kind && !one.name.includes('/'));
  const place = found?.namespaced === true ? `/namespaces/${metadata.namespace ?? 'default'}` : '';
  const { status, text } = await send({
    method: 'POST',
    path: `${root}${place}/${found?.name}`,
    body: manifest,
  });
  if (status >= 300 && status !== 409) throw new Error(text);
}

const isBinding = (one: Recorded['setup'][number]): boolean =>
  'kind' in one && one.kind === 'MutatingAdmissionPolicyBinding';

/** The answer without what only a real server sets, and without the wording of compile errors. */
function comparable({ code, reason, message, details, object }: Answer): unknown {
  if (code >= 400) {
    const isCompileError = message?.includes('compilation failed') === true;
    return isCompileError
      ? { code, reason, message: message.replace(/compilation failed: [^]*/, 'compilation failed') }
      : { code, reason, message, details };
  }
  const { metadata = {}, spec } = object as {
    readonly metadata?: Readonly<Record<string, unknown>>;
    readonly spec?: PodSpec;
  };
  const { name, namespace, labels, annotations, generateName, finalizers } = metadata;
  const { data, immutable } = object as { readonly data?: unknown; readonly immutable?: unknown };
  const isGenerated = generateName !== undefined && name !== 'chosen';
  return {
    ...{
      code,
      name: isGenerated ? undefined : name,
      namespace,
      labels,
      annotations,
      generateName,
      finalizers,
    },
    ...{ data, immutable, spec: spec === undefined ? undefined : withoutPodPlugins(spec) },
  };
}

const OF_OTHER_PLUGINS = ['enableServiceLinks', 'preemptionPolicy', 'priority'];

/** The spec without what other admission plugins and defaults of a real server set in Pods. */
function withoutPodPlugins({ tolerations = [], ...rest }: PodSpec): unknown {
  const own = tolerations.filter(({ key = '' }) => !key.startsWith('node.kubernetes.io/'));
  return {
    ...Object.fromEntries(Object.entries(rest).filter(([name]) => !OF_OTHER_PLUGINS.includes(name))),
    ...(own.length === 0 ? {} : { tolerations: own }),
  };
}

test.each(RECORDED.filter(({ name }) => !EXCEPTIONS.has(name)))(
  '$name is answered as by a real API server',
  async ({ setup, request, response }) => {
    const send = await start();
    // A real API server enforces a binding about a second after it is created.
    for (const one of [...setup.filter((each) => !isBinding(each)), ...setup.filter(isBinding)])
      await ('request' in one ? send(one.request) : create(send, one));
    const { status, text } = await send(request);
    const body = JSON.parse(text) as Omit<Answer, 'object' | 'code'>;
    expect(comparable({ ...body, code: status, object: body })).toEqual(comparable(response));
  },
);
