"""What each registered method is, as data: a picture in a few words, three sentences, its paper. One file a family."""
