/** Recorded answers of kube-apiserver 1.37 about MutatingAdmissionPolicies. */
import { testRecorded } from '../support/native/recorded-suite.ts';

const WORDING = "the sandbox words errors of Go's decoder differently";
const NULLS = 'the sandbox drops a null of a patch as it drops one in a request';

/** Cases that the sandbox answers differently, each with the reason. */
const EXCEPTIONS: ReadonlyMap<string, string> = new Map([
  ['mutating_apply/pod-container-without-key', 'the sandbox does not default the name of a container'],
  ['mutating_apply/pod-int-field', 'the sandbox lacks the admission plugin for priorities'],
  ['mutating_apply/pod-double-for-int', WORDING],
  ['mutating_json_patch/crd-add-null', NULLS],
  ['mutating_json_patch/add-int-to-string-map', WORDING],
  ['mutating_json_patch/replace-kind', WORDING],
  ['mutating_json_patch/wrong-type', WORDING],
  ['mutating_json_patch/pod-replace-spec-type', WORDING],
]);

testRecorded(({ name }) => name.startsWith('mutating_'), EXCEPTIONS);
