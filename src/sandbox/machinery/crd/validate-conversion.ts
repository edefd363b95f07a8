import type { Cause } from '../failure.ts';
import { clientConfigProblems } from '../kinds/webhooks/client-config-problems.ts';
import { forbiddenValue, invalidValue, requiredValue, unsupportedValue } from '../schema/causes.ts';
import type { Conversion } from './definition.ts';
import { label1035Problem } from '../dns-names.ts';

const REVIEW_VERSIONS = ['v1', 'v1beta1'];

// The API server reports these paths from its internal type, which has no `webhook` level.
const CONVERSION = 'spec.conversion';
const CLIENT_CONFIG = `${CONVERSION}.webhookClientConfig`;
const VERSIONS = `${CONVERSION}.conversionReviewVersions`;

export function conversionProblems(conversion: Conversion | undefined): readonly Cause[] {
  if (conversion === undefined) return [];
  const { strategy, webhook } = conversion;
  const problems = wordProblems(`${CONVERSION}.strategy`, strategy, ['None', 'Webhook']);
  if (strategy === 'Webhook') {
    const { clientConfig, reviewVersions = [] } = webhook ?? {};
    return [
      ...problems,
      ...(clientConfig === undefined
        ? [requiredValue(CLIENT_CONFIG, 'required when strategy is set to Webhook')]
        : clientConfigProblems(clientConfig, CLIENT_CONFIG)),
      ...reviewVersionProblems(reviewVersions),
    ];
  }
  const why = 'should not be set when strategy is not set to Webhook';
  return [
    ...problems,
    ...(webhook?.clientConfig === undefined ? [] : [forbiddenValue(CLIENT_CONFIG, why)]),
    ...(webhook === undefined || webhook.reviewVersions.length === 0 ? [] : [forbiddenValue(VERSIONS, why)]),
  ];
}

function reviewVersionProblems(versions: readonly string[]): readonly Cause[] {
  if (versions.length === 0) return [requiredValue(VERSIONS)];
  const each = versions.flatMap((version, index) => {
    const field = `${VERSIONS}[${index}]`;
    if (versions.indexOf(version) < index) return [invalidValue(field, version, 'duplicate version')];
    const problem = label1035Problem(version);
    return problem === undefined ? [] : [invalidValue(field, version, problem)];
  });
  const isKnown = versions.some((version) => REVIEW_VERSIONS.includes(version));
  return isKnown
    ? each
    : [
        ...each,
        invalidValue(VERSIONS, versions, `must include at least one of ${REVIEW_VERSIONS.join(', ')}`),
      ];
}

/** For fields that allow only a few values; an empty value counts as absent. */
export function wordProblems(field: string, value: string, supported: readonly string[]): readonly Cause[] {
  if (value === '') return [requiredValue(field)];
  return supported.includes(value) ? [] : [unsupportedValue(field, value, supported)];
}
