/** Admission reviews, from the request body to the response body. */
import fc from 'fast-check';

import { mutate } from '../../../src/admission/policy/mutate.ts';
import { clusterOf, policyOf } from '../../support/admission/policy.ts';
import { type AdmissionRequest, InvalidReview } from '../../../src/admission/review/request.ts';
import { parseReview, toMutatingReview, toValidatingReview } from '../../../src/admission/review/review.ts';
import { applyPatch } from '../../../src/json/json-patch.ts';
import { toJsonText } from '../../../src/json/json-text.ts';
import { type JsonObject, parseJson } from '../../../src/json/json.ts';
import { validate } from '../../../src/admission/policy/validate.ts';
import { reviewOf } from '../../support/webhook-client.ts';
import { judgeAdmission } from '../../support/review-checker.ts';
import { mutatedObject, mutatedText } from '../mutated.ts';
import { recordedReviews, SERVER } from '../seeds.ts';
import { answerOf, fuzzTarget, hold } from '../target.ts';

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

const REVIEW = JSON.parse(reviewOf()) as { readonly request: JsonObject }; // a review
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
  const fields = {
    operation,
    object: operation === 'DELETE' ? null : object,
    oldObject: operation === 'CREATE' ? null : oldObject,
  };
  return toJsonText({ ...REVIEW, request: { ...REVIEW.request, ...fields } });
}

const texts = fc.oneof(
  mutatedText(recordedReviews),
  ownReviews,
  ownReviews.chain((text) => mutatedText([text])),
);

export const reviews = fuzzTarget('admission review', 80, texts, async (text) => {
  const request = answerOf(() => parseReview(parseJson(text)), isInvalid);
  if (request === undefined) return;
  const verdict = await validate(request, [EVERYTHING], CLUSTER);
  judgeAdmission('validate', text, JSON.stringify(toValidatingReview(request, verdict)));
  const change = await mutate(request, [EVERYTHING], CLUSTER);
  judgeAdmission('mutate', text, JSON.stringify(toMutatingReview(request, change)));
  if (change.kind === 'allow') await staysAs(request, change.patch);
});

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
