/**
 * ValidatingAdmissionPolicies in the sandbox, compared with recorded answers of kube-apiserver 1.36. The recording
 * leaves out what the sandbox lacks: other kinds and subresources, the wording of compile errors.
 */
import { expect, test } from 'vitest';

import type { RawAnswer } from '../conformance/transport.ts';
import {
  readRecorded,
  setUp,
  startRecorded,
  type RecordedRequest,
  type RecordedUser,
  type Setup,
} from '../support/recorded-requests.ts';

interface Recorded {
  readonly name: string;
  readonly setup: Setup;
  readonly user?: RecordedUser;
  readonly request: RecordedRequest;
  readonly response: {
    readonly code: number;
    readonly reason?: string;
    readonly message?: string;
    readonly details?: object;
    readonly warnings?: readonly string[];
  };
  readonly audit?: Readonly<Record<string, string>>;
}

const warningsOf = ({ headers }: RawAnswer): readonly string[] =>
  (headers.warning ?? []).map((header) => JSON.parse(header.replace(/^299 - /, '')) as string);

test.each(readRecorded('admission-policies-1.36.jsonl') as readonly Recorded[])(
  '$name is answered as by a real API server',
  async ({ setup, user, request, ...recorded }) => {
    const { send, events } = await startRecorded();
    await setUp(send, setup);
    const answer = await send(request, user);
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
