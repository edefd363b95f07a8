/** MutatingAdmissionPolicies in the sandbox, compared with recorded answers of kube-apiserver 1.36. */
import { expect, test } from 'vitest';

import {
  readRecorded,
  setUp,
  startRecorded,
  type RecordedRequest,
  type Setup,
} from '../support/recorded-requests.ts';
import { EXCEPTIONS } from './mutating-policies-exceptions.ts';

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
  readonly setup: Setup;
  readonly request: RecordedRequest;
  readonly response: Answer;
}

const RECORDED = readRecorded('mutating-policies-1.36.jsonl') as readonly Recorded[];

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

test.for(RECORDED)(
  '$name is answered as by a real API server',
  async ({ name, setup, request, response }, { skip }) => {
    const exception = EXCEPTIONS.get(name);
    skip(exception !== undefined, exception);
    const { send } = await startRecorded();
    await setUp(send, setup);
    const { status, text } = await send(request);
    const body = JSON.parse(text) as Omit<Answer, 'object' | 'code'>;
    expect(comparable({ ...body, code: status, object: body })).toEqual(comparable(response));
  },
);

test('each exception is about a recorded request', () => {
  const names = new Set(RECORDED.map(({ name }) => name));
  expect([...EXCEPTIONS.keys()].filter((name) => !names.has(name))).toEqual([]);
});
