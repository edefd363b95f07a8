import type { FuzzTarget } from './target.ts';
import { amounts, quantities } from './targets/amounts.ts';
import { cel, celArithmetic, celLiterals, celRecorded } from './targets/cel.ts';
import {
  authoritySecret,
  pem,
  pemBundle,
  privateKeys,
  serviceRequests,
  servingSecret,
} from './targets/certificates.ts';
import { conversionPolicies, conversions, conversionText } from './targets/conversions.ts';
import { documents, kubeconfigs, yamlText } from './targets/documents.ts';
import { jsonPatch, jsonText, largeLists } from './targets/json.ts';
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
