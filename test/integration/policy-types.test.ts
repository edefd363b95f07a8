/** The type checks of ValidatingAdmissionPolicies in the sandbox, compared with recorded ones of Kubernetes 1.36. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

import { createSandboxTls } from '../../src/cli/sandbox/tls.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { createTransport } from '../conformance/transport.ts';
import { eventually } from '../support/processes.ts';

interface Call {
  readonly method: string;
  readonly path: string;
  readonly contentType: string;
  readonly body: unknown;
}

interface Recorded {
  readonly name: string;
  readonly calls: readonly Call[];
  readonly generation: number;
  readonly status: object;
}

const RECORDED = readFileSync(join(import.meta.dirname, '..', 'data', 'policy-types-1.36.jsonl'), 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Recorded); // our own file

/** The sandbox answers these otherwise. */
const DIFFERENCES: Readonly<Record<string, string>> = {
  'two-resources-one-wrong': 'the sandbox has no DaemonSets',
  'eleven-resources': 'the sandbox lacks seven of the kinds',
  'crd-timestamp': 'the sandbox takes a date-time as the string that it is in a request',
  'two-warnings-in-one-expression': 'the sandbox shows the first error of an expression',
  'params-unknown-field': 'the sandbox has no params',
  'params-wrong-type': 'the sandbox has no params',
  'params-kind-missing': 'the sandbox has no params',
};

const PATH = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies';
const TOKEN = 'admin';

interface Checked {
  readonly metadata: { readonly generation: number };
  readonly status: { readonly observedGeneration?: number };
}

test.each(RECORDED.filter(({ name }) => DIFFERENCES[name] === undefined))(
  '$name',
  async ({ calls, generation, status }) => {
    const tls = await createSandboxTls(new Date());
    const sandbox = await startSandbox({
      tls,
      users: new Map([[TOKEN, { username: 'admin', groups: ['system:masters'] }]]),
    });
    const transport = createTransport(`https://localhost:${sandbox.port}`, tls.ca);
    onTestFinished(async () => {
      transport.close();
      await sandbox.stop();
    });
    const call = async ({ method, path, contentType, body }: Call) =>
      await transport.call({
        ...{ method, path, headers: { authorization: `Bearer ${TOKEN}`, 'content-type': contentType } },
        body: body === undefined ? undefined : JSON.stringify(body),
      });
    for (const one of calls) {
      const answer = await call(one);
      if (answer.status >= 300) throw new Error(answer.text);
    }
    const read = async () => {
      const { text } = await call({ method: 'GET', path: `${PATH}/guard`, contentType: '', body: undefined });
      return JSON.parse(text) as Checked;
    };
    await eventually('the status', async () => (await read()).status.observedGeneration === generation, {
      timeoutMs: 5_000,
      everyMs: 10,
    });
    const found = await read();
    expect({ generation: found.metadata.generation, status: found.status }).toEqual({ generation, status });
  },
);
