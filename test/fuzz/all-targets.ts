import type { FuzzTarget } from './target.ts';
import { amounts, quantities } from './targets/amounts.ts';
import { cel } from './targets/cel.ts';
import { celArithmetic, celLiterals, celRecorded } from './targets/cel-reference.ts';
import { authoritySecret, pem, pemBundle, privateKeys } from './targets/certificates.ts';
import { serviceRequests, servingSecret } from './targets/serving-certs.ts';
import { conversionPolicies, conversions, conversionText } from './targets/conversions.ts';
import { documents, kubeconfigs, yamlText } from './targets/documents.ts';
import { jsonPatch, jsonText } from './targets/json.ts';
import { largeLists } from './targets/large-lists.ts';
import { paths, policies } from './targets/policies.ts';
import { detectors, ownerRecords, windows } from './targets/restore.ts';
import { reviews } from './targets/reviews.ts';
import { watchEvents, watchLines } from './targets/watch.ts';

export const ALL_TARGETS: readonly FuzzTarget[] = [
  ...[jsonText, jsonPatch, reviews, cel, policies, paths],
  ...[pem, authoritySecret, conversions, conversionText],
  ...[largeLists, celRecorded, celArithmetic, celLiterals],
  ...[quantities, amounts, watchLines, watchEvents],
  ...[documents, yamlText, kubeconfigs],
  ...[detectors, windows, ownerRecords],
  ...[pemBundle, privateKeys, servingSecret, serviceRequests],
  conversionPolicies,
];
