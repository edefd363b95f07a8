/**
 * ValidatingAdmissionPolicies in the sandbox, compared with recorded answers of kube-apiserver 1.36. The recording
 * leaves out what the sandbox lacks: other kinds and subresources, the wording of compile errors.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, onTestFinished, test } from 'vitest';

import { createSandboxTls } from '../../src/cli/sandbox/tls.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import type { AuditEvent } from '../../src/sandbox/server/http/audit.ts';
import { createTransport, type RawAnswer } from '../conformance/transport.ts';

interface Request {
  readonly method: string;
  readonly path: string;
  readonly contentType?: string;
  readonly body?: unknown;
}

interface Recorded {
  readonly name: string;
  readonly setup: readonly (Manifest | { readonly request: Request })[];
  readonly user?: { readonly username: string; readonly groups?: readonly string[]; readonly uid?: string };
  readonly request: Request;
  readonly response: {
    readonly code: number;
    readonly reason?: string;
    readonly message?: string;
    readonly details?: object;
    readonly warnings?: readonly string[];
  };
  readonly audit?: Readonly<Record<string, string>>;
}

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly namespace?: string };
}

const RECORDED = readFileSync(
  join(import.meta.dirname, '..', 'data', 'admission-policies-1.36.jsonl'),
  'utf8',
)
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
  const events: AuditEvent[] = [];
  const sandbox = await startSandbox({
    tls,
    users: new Map([[TOKEN, ADMIN]]),
    audit: (event) => void events.push(event),
  });
  const transport = createTransport(`https://localhost:${sandbox.port}`, tls.ca);
  onTestFinished(async () => {
    transport.close();
    await sandbox.stop();
  });
  const call = ({ method, path, contentType = 'application/json', body }: Request, user?: Recorded['user']) =>
    transport.call({
      ...{ method, path },
      headers: {
        ...{ authorization: `Bearer ${TOKEN}`, 'content-type': contentType },
        ...(user === undefined ? {} : { 'impersonate-user': user.username }),
        ...(user?.groups === undefined ? {} : { 'impersonate-group': user.groups as unknown as string }), // a header may repeat
      },
      body: typeof body === 'string' || body === undefined ? body : JSON.stringify(body),
    });
  return { call, events };
}

type Call = Awaited<ReturnType<typeof start>>['call'];

async function create(call: Call, manifest: Manifest): Promise<void> {
  const { apiVersion, kind, metadata } = manifest;
  const root = apiVersion === 'v1' ? '/api/v1' : `/apis/${apiVersion}`;
  const { resources } = JSON.parse((await call({ method: 'GET', path: root })).text) as {
    readonly resources: readonly {
      readonly kind: string;
      readonly name: string;
      readonly namespaced: boolean;
    }[];
  };
  const found = resources.find((one) => one.kind === kind && !one.name.includes('/'));
  const place = found?.namespaced === true ? `/namespaces/${metadata.namespace ?? 'default'}` : '';
  const { status, text } = await call({
    method: 'POST',
    path: `${root}${place}/${found?.name}`,
    body: manifest,
  });
  if (status >= 300 && status !== 409) throw new Error(text);
}

const isBinding = (one: Recorded['setup'][number]): boolean =>
  'kind' in one && one.kind === 'ValidatingAdmissionPolicyBinding';

const warningsOf = ({ headers }: RawAnswer): readonly string[] =>
  (headers.warning ?? []).map((header) => JSON.parse(header.replace(/^299 - /, '')) as string);

test.each(RECORDED)(
  '$name is answered as by a real API server',
  async ({ setup, user, request, ...recorded }) => {
    const { call, events } = await start();
    // A real API server enforces a binding about a second after it is created.
    for (const one of [...setup.filter((each) => !isBinding(each)), ...setup.filter(isBinding)])
      await ('request' in one ? call(one.request) : create(call, one));
    const answer = await call(request, user);
    const { reason, message, details } = (
      answer.status < 400 ? {} : JSON.parse(answer.text)
    ) as Recorded['response'];
    const { code, warnings = [], ...refusal } = recorded.response;
    expect([answer.status, warningsOf(answer)]).toEqual([code, warnings]);
    expect({ reason, message, details }).toEqual(code < 400 ? {} : { details: undefined, ...refusal });
    const annotations = Object.entries(events.at(-1)?.annotations ?? {});
    expect(
      Object.fromEntries(annotations.filter(([key]) => !key.startsWith('authorization.k8s.io/'))),
    ).toEqual(recorded.audit ?? {});
  },
);
