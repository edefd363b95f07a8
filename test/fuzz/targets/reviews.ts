/** Admission reviews, from the request body to the response body. */
import fc from 'fast-check';

import { mutate } from '../../../src/admission/policy/mutate.ts';
import { clusterOf, policyOf } from '../../support/admission/policy.ts';
import { type AdmissionRequest, InvalidReview } from '../../../src/admission/review/request.ts';
import { parseReview, toMutatingReview, toValidatingReview } from '../../../src/admission/review/review.ts';
import { applyPatch } from '../../../src/json/json-patch.ts';
import { toJsonText } from '../../../src/json/json-text.ts';
import { type JsonObject, type JsonValue, parseJson } from '../../../src/json/json.ts';
import { validate } from '../../../src/admission/policy/validate.ts';
import { judgeAdmission } from '../../support/review-checker.ts';
import { mutatedObject, mutatedText } from '../mutated.ts';
import { recordedReviews, SERVER } from '../seeds.ts';
import { answerOf, fuzzTarget, hold } from '../target.ts';

/** A policy with every type of check, on fields that the inputs contain. */
const EVERYTHING = policyOf({
  defaults: [
    { path: 'spec.tier', value: 'standard' },
    { path: 'spec.disks[*].class', value: 'hdd' },
    { path: 'metadata.labels["example.com/a"]', value: 'b' },
  ],
  mutations: [
    {
      name: 'odd-slots',
      condition: 'has(object.spec.slots)',
      expression: `{'spec': {'slots': object.spec.slots.map(slot, slot % 2 == 0 ? slot + 1 : slot)}}`,
    },
  ],
  validate: {
    schema: {
      properties: {
        spec: {
          properties: {
            note: { type: 'string', pattern: '^(a+)+$', maxLength: 8 },
            disks: { type: 'array', uniqueItems: true, items: { required: ['name'] } },
            units: { type: 'integer', minimum: 1, maximum: 48 },
          },
        },
      },
    },
    immutable: ['spec.datacenter', 'metadata.labels'],
    references: [
      {
        name: 'datacenter',
        path: 'spec.datacenter',
        target: { apiGroup: 'infra.example.com', resource: 'datacenters' },
      },
    ],
    rules: [
      { expression: "!has(object.spec.code) || object.spec.code.matches('^(a|aa)+$')", message: 'no code' },
      {
        expression: 'object.spec.disks.all(d, d.sizeGiB > 0)',
        messageExpression: "'of ' + object.metadata.name",
      },
    ],
  },
  warnings: [{ condition: 'has(object.spec.note)', messageExpression: 'object.spec.note' }],
  auditAnnotations: [{ key: 'note', valueExpression: 'string(object.spec.note)' }],
});

const CLUSTER = clusterOf();

const isInvalid = (error: unknown) => error instanceof SyntaxError || error instanceof InvalidReview;

const ownReviews: fc.Arbitrary<string> = fc
  .tuple(
    mutatedObject([SERVER]),
    mutatedObject([SERVER]),
    fc.constantFrom('CREATE', 'UPDATE', 'DELETE', 'CONNECT'),
  )
  .map(([object, oldObject, operation]) => reviewText(object, oldObject, operation));

function reviewText(object: JsonObject, oldObject: JsonObject, operation: string): string {
  const review: JsonValue = {
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: {
      uid: '705ab4f5-6393-11e8-b7cc-42010a800002',
      kind: { group: 'infra.example.com', version: 'v1', kind: 'Server' },
      resource: { group: 'infra.example.com', version: 'v1', resource: 'servers' },
      namespace: 'store',
      operation,
      userInfo: { username: 'alice', groups: ['system:authenticated'] },
      object: operation === 'DELETE' ? null : object,
      oldObject: operation === 'CREATE' ? null : oldObject,
    },
  };
  return toJsonText(review);
}

export const reviews = fuzzTarget(
  'admission review',
  80,
  fc.oneof(
    mutatedText(recordedReviews),
    ownReviews,
    ownReviews.chain((text) => mutatedText([text])),
  ),
  async (text) => {
    const request = answerOf(() => parseReview(parseJson(text)), isInvalid);
    if (request === undefined) return;
    const verdict = await validate(request, [EVERYTHING], CLUSTER);
    judgeAdmission('validate', text, JSON.stringify(toValidatingReview(request, verdict)));
    const change = await mutate(request, [EVERYTHING], CLUSTER);
    judgeAdmission('mutate', text, JSON.stringify(toMutatingReview(request, change)));
    if (change.kind === 'allow') await staysAs(request, change.patch);
  },
);

/** The API server may call a mutating webhook again with the mutated object. The second response must not change it. */
async function staysAs(request: AdmissionRequest, patch: Parameters<typeof applyPatch>[1]): Promise<void> {
  if (request.object === undefined) return;
  const object = applyPatch(request.object, patch);
  const second = await mutate({ ...request, object }, [EVERYTHING], CLUSTER);
  hold(
    second.kind === 'allow' && second.patch.length === 0,
    () => `asked again: ${toJsonText(second as never)}`,
  );
}
