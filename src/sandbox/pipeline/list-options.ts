import { badRequest, invalid, type Cause } from '../../machinery/failure.ts';
import { forbiddenValue, unsupportedValue } from '../../machinery/schema/causes.ts';

/**
 * @throws ApiFailure 422 as ValidateListOptions of k8s.io/apimachinery/pkg/apis/meta/internalversion/validation does,
 *   with watch-list enabled; 400 for a continue token together with a resourceVersion
 */
export function checkListOptions(query: URLSearchParams, isWatch: boolean): void {
  const options: Options = {
    match: query.get('resourceVersionMatch') ?? '',
    version: query.get('resourceVersion') ?? '',
    token: query.get('continue') ?? '',
    sendsInitial: query.has('sendInitialEvents'),
  };
  const causes = isWatch ? watchProblems(options) : listProblems(options);
  if (causes.length > 0) throw invalid({ group: 'meta.k8s.io', kind: 'ListOptions' }, '', causes);
  if (!isWatch && options.token !== '' && options.version !== '' && options.version !== '0') {
    throw badRequest('specifying resource version is not allowed when using continue');
  }
}

interface Options {
  readonly match: string;
  readonly version: string;
  /** The continue token. */
  readonly token: string;
  readonly sendsInitial: boolean;
}

const MATCH = 'resourceVersionMatch';
const notWithContinue = forbiddenValue(MATCH, `${MATCH} is forbidden when continue is provided`);

function listProblems({ match, version, token, sendsInitial }: Options): readonly Cause[] {
  const causes: Cause[] = [];
  if (match !== '') {
    if (version === '')
      causes.push(forbiddenValue(MATCH, `${MATCH} is forbidden unless resourceVersion is provided`));
    if (token !== '') causes.push(notWithContinue);
    if (match !== 'Exact' && match !== 'NotOlderThan')
      causes.push(unsupportedValue(MATCH, match, ['Exact', 'NotOlderThan', '']));
    if (match === 'Exact' && version === '0')
      causes.push(forbiddenValue(MATCH, `${MATCH} "exact" is forbidden for resourceVersion "0"`));
  }
  if (sendsInitial)
    causes.push(forbiddenValue('sendInitialEvents', 'sendInitialEvents is forbidden for list'));
  return causes;
}

function watchProblems({ match, token, sendsInitial }: Options): readonly Cause[] {
  const causes: Cause[] = [];
  if (sendsInitial && match !== 'NotOlderThan')
    causes.push(forbiddenValue(MATCH, `sendInitialEvents requires setting ${MATCH} to NotOlderThan`));
  if (match !== '') {
    if (!sendsInitial)
      causes.push(
        forbiddenValue(MATCH, `${MATCH} is forbidden for watch unless sendInitialEvents is provided`),
      );
    if (match !== 'NotOlderThan') causes.push(unsupportedValue(MATCH, match, ['NotOlderThan']));
    if (token !== '') causes.push(notWithContinue);
  }
  return causes;
}
