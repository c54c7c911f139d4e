from itertools import pairwise

from crmsync.sandbox import ids


def test_the_checksum_says_which_letters_are_upper_case() -> None:
    assert ids.canonical("001A0000006Vm9u") == "001A0000006Vm9uIAC"


def test_both_lengths_are_one_id_and_a_wrong_checksum_is_none() -> None:
    assert ids.canonical("001A0000006Vm9uIAC") == "001A0000006Vm9uIAC"
    assert ids.canonical("001A0000006Vm9uIAA") is None
    assert ids.canonical("001A0000006Vm9") is None
    assert ids.canonical("001A0000006Vm9é") is None


def test_ids_sort_in_the_order_in_which_they_are_made_and_give_their_number_back() -> None:
    numbers = [1, 9, 10, 35, 36, 61, 62, 3843, 3844, 10**9]
    made = [ids.make("00Q", number) for number in numbers]
    assert all(earlier < later for earlier, later in pairwise(made))
    assert [ids.number_of(each) for each in made] == numbers
    assert all(ids.canonical(ids.short(each)) == each and len(each) == 18 for each in made)
