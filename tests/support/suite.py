"""What the scripts of tests/cli end with."""
import shutil
import sys
import traceback


def run(names, scratch):
    """Runs every test_ function of `names`, a module's globals(); then removes the folder `scratch` and
    prints the closing line.  Returns the exit status."""
    passed = failed = 0
    for name, test in list(names.items()):
        if not name.startswith("test_"):
            continue
        try:
            test()
            passed += 1
        except Exception:
            failed += 1
            print(f"FAILED {name}")
            traceback.print_exc(file=sys.stdout)
    shutil.rmtree(scratch)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0
